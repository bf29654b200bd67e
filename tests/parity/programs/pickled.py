"""Kind 6: replies, requests and clients of httpx and requests are pickled and copied."""

import copy
import pickle

import httpx
import requests
import urllib3
from llm import CHAT, body

reply = requests.post(CHAT, json=body("requests"))
again = pickle.loads(pickle.dumps(reply))
print(type(again), again.text == reply.text, sorted(vars(again)), copy.copy(reply).status_code)
reply = httpx.post(CHAT, json=body("httpx"))
again = pickle.loads(pickle.dumps(reply))
print(type(again), again.text == reply.text, sorted(again.__dict__), again.request.url)
session = pickle.loads(pickle.dumps(requests.Session()))
print(session.post(CHAT, json=body("a pickled session")).json()["choices"][0]["message"]["content"])
reply = urllib3.request("POST", CHAT, json=body("urllib3"))
print(type(reply), type(reply).__mro__, reply.status, reply.data, isinstance(reply, urllib3.HTTPResponse))

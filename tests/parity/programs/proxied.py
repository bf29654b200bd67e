"""Kind 9: a proxy in the environment: requests go to it in the absolute form, with what it asks for."""

# server: plain vllm
import os
from urllib.parse import urlsplit

origin = "http://{0.hostname}:{0.port}".format(urlsplit(os.environ["LLM_URL"]))
os.environ["http_proxy"] = origin.replace("//", "//user:word@")
import httpx
import requests
from llm import body

for library in (httpx, requests):
    reply = library.post("http://far.test/v1/chat/completions", json=body("by proxy"))
    print(library.__name__, reply.status_code, reply.json()["choices"][0]["message"]["content"], reply.url)
os.environ["no_proxy"] = "127.0.0.1"
print(httpx.post(os.environ["LLM_URL"] + "/chat/completions", json=body("direct")).status_code)

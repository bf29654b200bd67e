"""Kind 9: statuses of 400 and more, a reply that is cut off, one that is no JSON, none at all: the same exceptions."""

# server: plain vllm
# elsewhere: 3
import re

import httpx
import httpx2
import requests
import urllib3
from llm import CHAT, body

for model in ("smol+status=400", "smol+status=429", "smol+status=500", "smol+drop_after=1", "smol+raw=html"):
    for library in (httpx, httpx2, requests):
        try:
            reply = library.post(CHAT, json=body() | {"model": model}, timeout=10)
            print(model, library.__name__, reply.status_code, reply.text)
        except Exception as error:
            print(model, library.__name__, type(error), re.sub(r"\d+", "N", str(error)))
for library in (httpx, requests):
    try:
        library.post("http://127.0.0.1:1/v1/chat/completions", json=body())
    except Exception as error:
        print(library.__name__, type(error), error, type(error.__cause__), type(error.__context__))
try:
    urllib3.request("POST", "http://127.0.0.1:1/v1/chat/completions", json=body(), retries=False)
except Exception as error:
    print(type(error))

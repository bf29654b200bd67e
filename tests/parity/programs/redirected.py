"""Kind 10: a redirect is followed as the agent's library does it, history included."""

# server: plain vllm
# elsewhere: -3
import httpx
import requests
from llm import CHAT, body

request = body("moved") | {"model": "smol+redirect"}
reply = httpx.post(CHAT, json=request, follow_redirects=True)
print(reply.text, reply.history, reply.url)
print(httpx.post(CHAT, json=request).headers["location"])
reply = requests.post(CHAT, json=request)
print(reply.text, reply.history, reply.url)

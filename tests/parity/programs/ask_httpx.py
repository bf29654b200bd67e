"""Kind 9: a whole and a streamed call over httpx; header lines in their order, the body to the byte."""

# server: plain vllm
import httpx
from llm import CHAT, body

reply = httpx.post(CHAT, json=body("whole"), headers={"X-Mine": "1", "x-Mine": "2"})
print(reply.text, sorted(reply.headers), reply.request.content, reply.url)
with httpx.stream("POST", CHAT, json=body("streamed", stream=True)) as reply:
    print(list(reply.iter_lines()))

"""Kind 11: compressed replies, whole and streamed, decoded by the library or read raw."""

# server: plain
import httpx
import requests
from llm import CHAT, body

for stream in (False, True):
    for switch in ("accepted", "always"):
        request = body("zipped", stream=stream) | {"model": f"smol+gzip={switch}"}
        reply = httpx.post(CHAT, json=request)
        print(reply.text, sorted(reply.headers), reply.headers.get("content-encoding"))
        reply = requests.post(CHAT, json=request, stream=True)
        print(len(reply.raw.read(decode_content=False)), reply.headers.get("content-encoding"))

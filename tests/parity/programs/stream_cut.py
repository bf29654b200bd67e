"""Kind 3: the connection is lost in the midst of a stream: what was read before, and the exception."""

# server: plain vllm
import httpx
import requests
from llm import CHAT, body

for library in (httpx, requests):
    lines = []
    try:
        request = body("cut", stream=True) | {"model": "smol+drop_after=3"}
        if library is httpx:
            with httpx.stream("POST", CHAT, json=request) as reply:
                for line in reply.iter_lines():
                    lines.append(line)
        else:
            for line in requests.post(CHAT, json=request, stream=True).iter_lines(1):
                lines.append(line)
    except Exception as error:
        print(type(error), error)
    print(lines)

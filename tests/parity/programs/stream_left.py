"""Kind 3: streams that are left: break, close, an exception in the loop, never read, dropped."""

import gc

import httpx
import requests
from llm import CHAT, body

for way in ("break", "close", "raise", "unread"):
    try:
        with httpx.stream("POST", CHAT, json=body(way, stream=True)) as reply:
            for line in [] if way == "unread" else reply.iter_lines():
                print(way, line)
                if way == "break":
                    break
                if way == "close":
                    reply.close()
                    break
                raise LookupError("the agent's")
        print(reply.is_closed, reply.is_stream_consumed)
    except LookupError as error:
        print(error)
client = httpx.Client()
reply = client.send(client.build_request("POST", CHAT, json=body("dropped", stream=True)), stream=True)
lines = reply.iter_lines()
print(next(lines))
del lines, reply
gc.collect()
reply = requests.post(CHAT, json=body("requests", stream=True), stream=True)
print(next(reply.iter_lines()))
reply.close()
requests.post(CHAT, json=body("requests dropped", stream=True), stream=True)
gc.collect()

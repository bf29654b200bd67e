"""Kind 3: each event of a stream is seen before the server sends the next one, in every library."""

# elsewhere: 14

import asyncio
import json
import urllib.request

import aiohttp
import httpx
import httpx2
import requests
import urllib3
from llm import body
from stepped import Stepped

BODY = json.dumps(body(stream=True)).encode()
HEADERS = {"Content-Type": "application/json"}


def watch(name, server, lines):
    seen = 0
    for line in lines:
        text = line if isinstance(line, str) else line.decode()
        if text.startswith("data: {"):
            seen += 1
            server.seen()
    print(name, seen, server.patient)


for owner in ("vllm", "somebody"):
    for library in (httpx, httpx2):
        server = Stepped(owned_by=owner)
        with library.stream("POST", server.url, content=BODY, headers=HEADERS) as reply:
            watch(library.__name__, server, reply.iter_lines())
    server = Stepped(owned_by=owner)
    watch("requests", server, requests.post(server.url, BODY, headers=HEADERS, stream=True).iter_lines(1))
    server = Stepped(owned_by=owner)
    reply = urllib3.request("POST", server.url, body=BODY, headers=HEADERS, preload_content=False)
    watch("urllib3", server, reply)
    server = Stepped(owned_by=owner)
    with urllib.request.urlopen(urllib.request.Request(server.url, BODY, HEADERS)) as reply:
        watch("urllib", server, reply)

    async def asynchronous(owner=owner):
        server = Stepped(owned_by=owner)
        async with aiohttp.ClientSession() as session, session.post(server.url, data=BODY, headers=HEADERS) as reply:
            seen = 0
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    seen += 1
                    server.seen()
            print("aiohttp", seen, server.patient)
        server = Stepped(owned_by=owner)
        async with httpx.AsyncClient() as client, client.stream("POST", server.url, content=BODY) as reply:
            seen = 0
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    seen += 1
                    server.seen()
            print("httpx async", seen, server.patient)

    asyncio.run(asynchronous())

"""Kind 2: every warning is an error, and every library of ours is loaded: none of ours raises one."""

# run: python -W error -b {program}
# env: PYTHONWARNINGS=error
import asyncio

import aiohttp
import httpx
import requests
from llm import CHAT, ask, body


async def main():
    async with aiohttp.ClientSession() as session, session.post(CHAT, json=body("aiohttp")) as reply:
        print(await reply.json())
    async with httpx.AsyncClient() as client:
        print((await client.post(CHAT, json=body("async"))).text)


print(ask(), requests.post(CHAT, json=body("requests")).text, httpx.post(CHAT, json=body("httpx")).text)
asyncio.run(main())

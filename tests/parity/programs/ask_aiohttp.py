"""Kind 9: aiohttp, whole and streamed."""

# server: plain vllm
import asyncio

import aiohttp
from llm import CHAT, body


async def main():
    async with aiohttp.ClientSession(headers={"X-Mine": "1"}) as session:
        async with session.post(CHAT, json=body("whole")) as reply:
            print(await reply.json(), sorted(reply.headers))
        async with session.post(CHAT, json=body("streamed", stream=True)) as reply:
            print([line async for line in reply.content])


asyncio.run(main())

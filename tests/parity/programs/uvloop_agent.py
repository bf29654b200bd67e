"""Kind 2: an agent on uvloop, over httpx and aiohttp at once."""

# since: 3.11
# needs: uvloop
import asyncio

import aiohttp
import httpx
import uvloop
from llm import CHAT, body


async def main():
    async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:

        async def over_httpx(number):
            return (await client.post(CHAT, json=body(f"httpx {number}"))).json()["choices"][0]["message"]["content"]

        async def over_aiohttp(number):
            async with session.post(CHAT, json=body(f"aiohttp {number}")) as reply:
                return (await reply.json())["choices"][0]["message"]["content"]

        print(type(asyncio.get_running_loop()).__module__)
        print(await asyncio.gather(*map(over_httpx, range(4)), *map(over_aiohttp, range(4))))


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())

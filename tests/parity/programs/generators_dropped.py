"""Kind 8: async generators over a stream, left early, finalised by another task, by gc and by the loop's end."""

# run: python -W default {program}
import asyncio
import gc

import httpx
from llm import CHAT, body


async def words(client, text):
    async with client.stream("POST", CHAT, json=body(text, stream=True)) as reply:
        async for line in reply.aiter_lines():
            yield line


async def main():
    async with httpx.AsyncClient() as client:
        async for word in words(client, "left"):
            print(word)
            break
        gc.collect()
        await asyncio.sleep(0.05)
        generator = words(client, "closed elsewhere")
        print(await anext(generator))
        await asyncio.create_task(generator.aclose())
    print("end")


asyncio.run(main())

"""Kind 3: tasks are cancelled in a call and in a stream, and a call times out."""

# server: vllm
import asyncio

import httpx
from llm import CHAT, body


async def main():
    async with httpx.AsyncClient() as client:
        task = asyncio.create_task(client.post(CHAT, json=body("never")))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            print("cancelled", error.args)

        async def stream():
            async with client.stream("POST", CHAT, json=body("stream", stream=True)) as reply:
                async for line in reply.aiter_lines():
                    print(line)
                    await asyncio.Event().wait()

        try:
            await asyncio.wait_for(stream(), 0.5)
        except TimeoutError as error:
            print(repr(error))
        print((await client.post(CHAT, json=body("after"))).json()["choices"][0]["message"])


asyncio.run(main())

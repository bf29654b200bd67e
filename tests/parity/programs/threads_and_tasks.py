"""Kind 8: thread pools, executors and tasks; the agent's own context variables are as it left them."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import httpx
from llm import CHAT, ask, body

mine = contextvars.ContextVar("mine", default=0)


async def one(client, number):
    mine.set(number)
    await client.post(CHAT, json=body(f"task {number}"))
    return mine.get()


async def main():
    async with httpx.AsyncClient() as client:
        loop = asyncio.get_running_loop()
        print(await asyncio.gather(*(one(client, number) for number in range(5))))
        print(await loop.run_in_executor(None, ask, "executor"), await asyncio.to_thread(ask, "thread"), mine.get())


with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(ask, map(str, range(6)))))
asyncio.run(main())
print([name.name for name in contextvars.copy_context() if not name.name.startswith("agentlight")])

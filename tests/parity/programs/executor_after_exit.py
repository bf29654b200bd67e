"""Kind 4: work that is handed to a pool at the end of asyncio.run and at interpreter exit."""

import asyncio
import atexit
from concurrent.futures import ThreadPoolExecutor

from llm import ask

pool = ThreadPoolExecutor(1)
futures = [pool.submit(ask, "last")]
atexit.register(lambda: print(futures[0].result()))


async def main():
    await asyncio.sleep(0)
    asyncio.get_running_loop().run_in_executor(None, ask, "not awaited")


asyncio.run(main())

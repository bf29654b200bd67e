"""Kind 4: multiprocessing with a fork server, and a process pool on it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from llm import ask

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        print(list(pool.map(ask, ["one", "two", "three"])))

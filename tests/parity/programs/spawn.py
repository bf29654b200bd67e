"""Kind 4: multiprocessing with spawn: the main module is imported again under another name."""

import multiprocessing
import sys

from llm import ask


def work(number):
    return ask(f"spawn {number}"), __name__, sys.path[0] == sys.path[0], multiprocessing.current_process().name


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, range(2)), ask("main"))
        pool.close()
        pool.join()

"""Kind 4: multiprocessing with fork after a call, so that the children inherit an open store."""

import multiprocessing

from llm import ask

if __name__ == "__main__":
    print(ask("main"))
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=ask, args=(f"fork {number}",)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes], ask("main again"))

"""Kind 4: daemon threads in the middle of calls when the interpreter ends."""

import threading

from llm import ask

once = threading.Event()


def forever():
    print(ask("daemon"), flush=True)
    once.set()
    threading.Event().wait()


threading.Thread(target=forever, daemon=True).start()
once.wait()
print("end")

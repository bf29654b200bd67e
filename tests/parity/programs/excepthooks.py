"""Kind 2: the agent's own excepthook, threading.excepthook and unraisablehook are called as without us."""

import sys
import threading

from llm import ask

sys.excepthook = lambda kind, error, trace: print("hook", kind, error)
threading.excepthook = lambda info: print("thread hook", info.exc_type, info.exc_value)
sys.unraisablehook = lambda info: print("unraisable", info.exc_type, info.exc_value)


class Loud:
    def __del__(self):
        raise ValueError("in __del__")


Loud()
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
print(ask())
raise RuntimeError("end")

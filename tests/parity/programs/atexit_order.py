"""Kind 4: the order of atexit functions, one of which asks the model."""

import atexit
import sys
import threading

from llm import ask

atexit.register(print, "first registered")
atexit.register(lambda: print("asked at exit:", ask("last words")))
atexit.register(print, "last registered")
threading.Thread(target=lambda: print("thread:", ask("thread"))).start()
sys.exit(3)

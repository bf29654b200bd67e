"""Kind 4: KeyboardInterrupt caught, in the midst of a call."""

import os
import signal
import threading

from llm import ask

try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Event().wait(20)
except KeyboardInterrupt:
    print("interrupted", ask("after it"))

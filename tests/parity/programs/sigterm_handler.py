"""Kind 4: a handler of SIGTERM runs, asks the model, and chooses the exit status."""

import os
import signal
import sys

from llm import ask


def end(number, frame):
    print("ending", number, ask("from a handler"))
    sys.exit(5)


signal.signal(signal.SIGTERM, end)
os.kill(os.getpid(), signal.SIGTERM)

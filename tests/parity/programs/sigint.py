"""Kind 4: KeyboardInterrupt that nobody catches: its traceback, and the status of a death by SIGINT."""

import os
import signal

from llm import ask

print(ask(), flush=True)
os.kill(os.getpid(), signal.SIGINT)

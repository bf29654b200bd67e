"""Kind 4: a process that dies of SIGTERM after a call."""

import os
import signal

from llm import ask

print(ask(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)

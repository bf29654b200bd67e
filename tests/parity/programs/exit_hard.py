"""Kind 4: os._exit right after a call: nothing flushes, the record is there."""

import os

from llm import ask

print(ask(), flush=True)
os._exit(9)

"""Kind 8: an agent that has replaced time.time, time.sleep and os.getpid."""

import os
import time

time.time = lambda: 1.0
time.sleep = lambda seconds: None
os.getpid = lambda: 1
from llm import ask

print(ask("one"), ask("two"), time.time(), os.getpid())

"""Kind 8: seeded random and uuid agents: the states and the numbers are those of the seed."""

import os
import random
import uuid

from llm import ask, ask_httpx

random.seed(7)
state = random.getstate()
print(ask(), ask_httpx(), random.getstate() == state)
print(random.random(), uuid.UUID(int=random.getrandbits(128), version=4))
os.urandom = lambda size: bytes(size)
uuid.uuid4 = lambda: uuid.UUID(int=1)
print(ask("with broken urandom"), ask("again"), uuid.uuid4())

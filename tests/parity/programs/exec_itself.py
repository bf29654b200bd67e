"""Kind 4: the process replaces itself after a call."""

import os
import sys

from llm import ask

print(ask(f"{len(sys.argv)}"), flush=True)
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, __file__, "again"])

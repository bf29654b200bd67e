"""Kind 2: cProfile around a call, and the recursion limit."""

import cProfile
import sys

from llm import ask

profile = cProfile.Profile()
print(profile.runcall(ask, "profiled"), sys.getrecursionlimit())
mine = [entry.code.co_name for entry in profile.getstats() if getattr(entry.code, "co_filename", "").endswith("llm.py")]
print(sorted(mine))

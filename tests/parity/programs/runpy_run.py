"""Kind 2: runpy runs a script and a module, of which __main__ is a stranger afterwards."""

# setup: echo 'import llm; print(__name__, __file__, llm.ask())' > other.py
import runpy
import sys

before = sys.modules["__main__"]
print(sorted(runpy.run_path("other.py", run_name="__main__")))
print(sorted(runpy.run_module("other", run_name="other")))
print(sys.modules["__main__"] is before)

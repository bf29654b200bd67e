"""Kind 2: the agent's sitecustomize runs once, under its name, with its __file__."""

# setup: mkdir mine; cp {aids}/sitecustomize.py mine/probe.py
# setup: printf 'import probe, sys\nsys.mine = getattr(sys, "mine", 0) + 1\n' > mine/sitecustomize.py
# env: PYTHONPATH=mine:{aids}
import sys

import sitecustomize
from llm import ask

print(sys.mine, sitecustomize.__file__, sitecustomize.__spec__.name, sys.modules["sitecustomize"].__name__, ask())

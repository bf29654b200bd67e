"""Kind 2: -s, and PYTHONNOUSERSITE, and PYTHONSTARTUP that a script does not read."""

# env: PYTHONNOUSERSITE=1 PYTHONSTARTUP=/nowhere.py
# run: python -s {program}
import sys

from llm import ask

print(sys.flags, ask())

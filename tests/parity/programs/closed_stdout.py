"""Kind 2: standard output is closed before the start."""

# run: bash -c 'python {program} >&-'
import sys

from llm import ask

print(ask())
print(sys.stdout, file=sys.stderr)

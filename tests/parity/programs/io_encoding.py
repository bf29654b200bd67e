"""Kind 11: PYTHONIOENCODING with an error handler."""

# env: PYTHONIOENCODING=latin-1:replace
import sys

from llm import ask

print(sys.stdout.encoding, sys.stdout.errors, ask("漢字"), "\u6f22")

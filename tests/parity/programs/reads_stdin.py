"""Kind 2: standard input is the agent's, to its last byte."""

# stdin: b"one\ntwo\n\xff\xfe"
import sys

from llm import ask

print(input(), ask(), sys.stdin.buffer.read(), sys.stdin.isatty())

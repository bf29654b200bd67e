"""Kind 4: writing to a pipe whose reader is gone; as a C program dies of it, and as Python raises."""

# run: bash -c 'set -o pipefail; python {program} | head -1; echo ${PIPESTATUS[0]}'
import signal
import sys

from llm import ask

ask()
if sys.argv[1:]:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for _ in range(100000):
    print("a line that is long enough to fill the pipe in the end")

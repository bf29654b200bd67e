"""Kind 4: a Python child that starts a shell that starts a Python child, each with a call."""

import subprocess
import sys

from llm import ask

if len(sys.argv) < 3:
    command = f"{sys.executable} {__file__} again {' '.join(sys.argv[1:])}"
    print(subprocess.run(["sh", "-c", command], capture_output=True, text=True))
print(ask(" ".join(sys.argv[1:])))

"""Kind 2: PYTHONSAFEPATH: neither the script's folder nor the working directory is on the path."""

# since: 3.11
# env: PYTHONSAFEPATH=1
import sys

from llm import ask

print(sys.path, sys.flags.safe_path, ask())

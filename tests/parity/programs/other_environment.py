"""Kind 2: an agent in another virtual environment, without agentlight: it runs unharmed, and the remedy is said."""

# setup: python -m venv --without-pip other
# run: other/bin/python {program}
# unseen: no agentlight in that environment
import sys

from llm import ask

print(sys.prefix, [entry for entry in sys.path if "site-packages" in entry], ask())
sys.exit(7)

"""Kind 2: an error in the agent's sitecustomize is shown as the interpreter shows it, once, and the agent runs on."""

# setup: mkdir mine; echo 'import sys; launcher = "agentlight-run" in str(sys.orig_argv)' > mine/sitecustomize.py
# setup: echo 'if not launcher: raise ValueError("mine")' >> mine/sitecustomize.py
# env: PYTHONPATH=mine:{aids}
from llm import ask

print(ask())

"""Kind 1: a library imported, and a name bound early, by the agent's sitecustomize."""

# setup: mkdir mine; printf 'import httpx, builtins\nbuiltins.post = httpx.post\n' > mine/sitecustomize.py
# env: PYTHONPATH=mine:{aids}
import builtins

from llm import CHAT, body

print(builtins.post(CHAT, json=body()).text)

"""Kind 2: the agent's folder hides a library that we need; the agent's own is what it gets, and its calls work."""

# unseen: our serialiser is hidden by the agent's own module
# setup: echo 'X = "mine"' > msgpack.py; echo 'X = "mine"' > msgspec.py
import msgpack
import msgspec
from llm import ask

print(msgpack.X, msgspec.X, ask())

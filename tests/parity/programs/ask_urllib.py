"""Kind 9: calls over urllib.request, which every installation has."""

# server: plain vllm
from llm import ask

print(ask("one"), ask("two"))

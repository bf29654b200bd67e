"""Kind 10: httpx is thrown out of sys.modules with all its parts and imported afresh."""

import sys

from llm import ask_httpx

print(ask_httpx("before"))
for name in [name for name in sys.modules if name.split(".")[0] == "httpx"]:
    del sys.modules[name]
print(ask_httpx("after"))

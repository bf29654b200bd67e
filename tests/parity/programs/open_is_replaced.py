"""Kind 8: an agent that has replaced open, print and json.dumps."""

import builtins
import json

from llm import ask, ask_httpx


def refuse(*args, **kwargs):
    raise PermissionError("no")


opened, builtins.open = builtins.open, refuse
dumps, json.dumps = json.dumps, lambda value, **options: dumps(value, **options)
print(ask(), ask_httpx())
builtins.open = opened

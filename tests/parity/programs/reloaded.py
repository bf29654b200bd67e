"""Kind 10: httpx and http.client are reloaded; one record a call before and after."""

import http.client
import importlib

import httpx
from llm import ask, ask_httpx

print(ask("before"), ask_httpx("before"))
importlib.reload(http.client)
importlib.reload(httpx)
print(ask("after"), ask_httpx("after"))

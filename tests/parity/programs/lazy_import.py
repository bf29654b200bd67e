"""Kind 2: importlib's LazyLoader around a library that we patch."""

import importlib.util
import sys

spec = importlib.util.find_spec("httpx")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["httpx"] = module
spec.loader.exec_module(module)
print(type(module).__name__)
from llm import ask_httpx

print(ask_httpx(), type(module).__name__)

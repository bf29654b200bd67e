"""Kind 2: modules that we patch: spec, loader, source and resources."""

import http.client
import importlib.resources
import inspect
import sys

import aiohttp
import httpx
import httpx2
import urllib3

for module in (httpx, httpx2, urllib3, aiohttp, http.client):
    print(module, type(module), module.__spec__, type(module.__loader__), module.__loader__ is module.__spec__.loader)
    print(sorted(vars(module)), len(inspect.getsource(module)), sorted(vars(module.__loader__)))
    print(module.__loader__.get_code(module.__name__).co_filename)
print(importlib.resources.files(httpx).joinpath("__init__.py").is_file(), type(sys.modules), sys.path_hooks)

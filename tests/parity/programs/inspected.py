"""Kind 6: the functions that we wrap look as they did: signature, source, name, kind, and where they are found."""

import http.client
import inspect

import aiohttp
import httpx
import httpx2
import urllib3

for owner, name in (
    (httpx.Client, "_send_single_request"),
    (httpx.AsyncClient, "_send_single_request"),
    (httpx2.Client, "_send_single_request"),
    (httpx2.AsyncClient, "_send_single_request"),
    (aiohttp.ClientSession, "_request"),
    (urllib3.HTTPConnectionPool, "urlopen"),
    (http.client.HTTPConnection, "request"),
    (http.client.HTTPConnection, "getresponse"),
):
    function = getattr(owner, name)
    print(owner, function.__name__, function.__qualname__, function.__module__, inspect.signature(function))
    print(inspect.iscoroutinefunction(function), inspect.isfunction(function), inspect.ismethod(function))
    print(len(inspect.getsource(function)), bool(function.__doc__), function.__defaults__, function.__code__.co_name)
    print(inspect.ismethod(getattr(owner("localhost"), name)) if owner is http.client.HTTPConnection else None)

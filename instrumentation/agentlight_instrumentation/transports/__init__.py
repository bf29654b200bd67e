"""Where bytes pass, one small file an HTTP library; `TRANSPORTS` maps its import name to our file's name.

They stack: requests on urllib3, urllib on http.client, httpx on aiohttp. The uppermost one carries the exchange.
"""

TRANSPORTS = {
    "httpx": "httpx",
    "httpx2": "httpx",  # a fork of httpx that openai >= 3 and anthropic >= 1 use; the same classes and methods
    "urllib3": "urllib3",  # and so requests, botocore, ...
    "aiohttp": "aiohttp",
    "http.client": "http_client",  # and so urllib.request, ...
}

"""Where bytes pass, one small file an HTTP library; `TRANSPORTS` maps its import name to our file's name."""

TRANSPORTS = {
    "httpx": "httpx",
    "httpx2": "httpx",  # a fork of httpx that openai >= 3 and anthropic >= 1 use; the same classes and methods
    "requests": "requests",
}

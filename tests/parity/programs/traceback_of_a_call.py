"""Kind 9: an exception of the library, uncaught and chained: its type, its text, and who raised it from what."""

# elsewhere: 1
import sys
import traceback

import httpx
from llm import body


def hook(kind, error, trace):
    while error is not None:
        print(kind.__name__, error, error.__suppress_context__, file=sys.stderr)
        here = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
        print(here, file=sys.stderr)
        error = error.__cause__ or error.__context__
        kind = type(error)


def call():
    try:
        httpx.post("http://127.0.0.1:1/v1/chat/completions", json=body(), timeout=1)
    except httpx.HTTPError as error:
        raise RuntimeError("the call failed") from error


sys.excepthook = hook
call()

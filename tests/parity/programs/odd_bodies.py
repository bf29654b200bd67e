"""Kind 11: bodies that are generators, files, bytearrays, not JSON, empty, or not UTF-8; header values of bytes."""

# server: plain
# unseen: bodies that can be read only once
import io
import json

import httpx
import requests
from llm import CHAT, body

text = json.dumps(body()).encode()
for content in (iter([text]), io.BytesIO(text), b"not json", b"", b"\xff\xfe{}"):
    for library in (httpx, requests):
        again = io.BytesIO(text) if isinstance(content, io.BytesIO) else content
        given = {"content": again} if library is httpx else {"data": again}
        try:
            print(library.post(CHAT, **given, headers={b"X-Bytes": b"1"}).status_code)
        except Exception as error:
            print(type(error), error)

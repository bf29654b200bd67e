"""Kind 9: requests that are no LLM calls are left alone: GET, PUT, forms, uploads, a look-alike path."""

# server: plain
import httpx
import requests
from llm import URL

print(httpx.get(URL + "/nothing").status_code, requests.get(URL).status_code)
KIND = {"Content-Type": "multipart/form-data; boundary=b"}
print(httpx.post(URL + "/files", files={"file": ("name", b"data")}, headers=KIND).status_code)
print(requests.post(URL + "/form", data={"form": "data"}).status_code)
print(requests.post(URL + "/chat/completions/more", json={"messages": []}).status_code)

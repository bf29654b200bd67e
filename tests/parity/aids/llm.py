"""How the programs ask a language model: by the library they name, with one line."""

import json
import os

URL = os.environ.get("LLM_URL", "")
CHAT = URL + "/chat/completions"


def body(text="hello", **more):
    return {"model": "smol", "messages": [{"role": "user", "content": text}], **more}


def ask(text="hello", **more):
    """Over urllib; returns the reply's text."""
    import urllib.request

    data = json.dumps(body(text, **more)).encode()
    request = urllib.request.Request(CHAT, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def ask_httpx(text="hello", **more):
    import httpx

    return httpx.post(CHAT, json=body(text, **more), timeout=20).json()["choices"][0]["message"]["content"]


def openai():
    from openai import OpenAI

    return OpenAI(base_url=URL, api_key="sk-none", max_retries=0)

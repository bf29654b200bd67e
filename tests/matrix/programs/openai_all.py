"""openai 1.90 and later: every public method of the chat, completions and responses resources that asks a model, once.

The methods are found by reflection: one that is new here and not named below ends the program with an error.
"""

import asyncio
import contextlib
import inspect
import sys

import openai

CHAT = {"model": "smol", "messages": [{"role": "user", "content": "hello"}]}
RESPONSE = {"model": "smol", "input": "hello"}
TEXT = {"model": "smol", "prompt": "hello"}
ASKING = {
    ("chat.completions", "create"): CHAT, ("chat.completions", "parse"): CHAT, ("chat.completions", "stream"): CHAT,
    ("completions", "create"): TEXT,
    ("responses", "create"): RESPONSE, ("responses", "parse"): RESPONSE, ("responses", "stream"): RESPONSE,
}  # fmt: skip
# These ask no model, or need a server that keeps what it said.
OTHERS = {
    "retrieve", "update", "list", "delete", "cancel", "connect", "compact", "messages", "input_items", "input_tokens",
    "with_raw_response", "with_streaming_response",
}  # fmt: skip


def resource(client, name):
    for part in name.split("."):
        client = getattr(client, part)
    return client


def methods(client):
    for name in ("chat.completions", "completions", "responses"):
        for method in dir(resource(client, name)):
            if method.startswith("_") or method in OTHERS:
                continue
            if not callable(getattr(resource(client, name), method)):
                continue
            yield name, method


def sync():
    client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
    for name, method in methods(client):
        fields = ASKING[name, method]
        got = getattr(resource(client, name), method)(**fields)
        if method == "stream":
            with got as events:
                print(name, method, sum(1 for _ in events) > 0)
            continue
        print(name, method, type(got).__name__)
        raw = resource(client, name).with_raw_response
        if hasattr(raw, method):
            print(name, "raw", type(getattr(raw, method)(**fields).parse()).__name__)
        streaming = resource(client, name).with_streaming_response
        if hasattr(streaming, method):
            with getattr(streaming, method)(**fields) as reply:
                print(name, "streaming", type(reply.parse()).__name__)


async def asynchronous():
    client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
    for name, method in methods(client):
        got = getattr(resource(client, name), method)(**ASKING[name, method])
        if method == "stream":
            async with got as events:
                print(name, method, len([one async for one in events]) > 0)
        else:
            got = await got if inspect.isawaitable(got) else got
            print(name, method, type(got).__name__)
    with contextlib.suppress(Exception):
        await client.close()


sync()
asyncio.run(asynchronous())

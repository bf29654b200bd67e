"""openai 0.28: module-level calls over requests, async ones over aiohttp."""

import asyncio
import sys

import openai

openai.api_key, openai.api_base = "x", sys.argv[1]
ASK = {"model": "smol", "messages": [{"role": "user", "content": "hello"}]}


def text(parts):
    return "".join(part["choices"][0]["delta"].get("content") or "" for part in parts)


print(openai.ChatCompletion.create(**ASK)["choices"][0]["message"]["content"])
print(
    "".join(
        part["choices"][0]["delta"].get("content") or "" for part in openai.ChatCompletion.create(**ASK, stream=True)
    )
)
print(openai.Completion.create(model="smol", prompt="hello")["choices"][0]["text"])


async def main():
    print((await openai.ChatCompletion.acreate(**ASK))["choices"][0]["message"]["content"])
    stream = await openai.ChatCompletion.acreate(**ASK, stream=True)
    print(text([part async for part in stream]))


asyncio.run(main())

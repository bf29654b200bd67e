"""openai 1 and later: chat whole, streamed, raw, async, with tools, with options; text completions."""

import asyncio
import sys

import openai

ASK = {"model": "smol", "messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)


def text(parts):
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


print(client.chat.completions.create(**ASK).choices[0].message.content)
print(text(client.chat.completions.create(**ASK, stream=True)))
print([choice.message.content for choice in client.chat.completions.create(**ASK, n=2).choices])
print(client.chat.completions.with_raw_response.create(**ASK).parse().choices[0].message.content)
print(client.with_options(timeout=50).chat.completions.create(**ASK).choices[0].message.content)
print(client.chat.completions.create(**ASK, tools=[TOOL]).choices[0].message.tool_calls is not None)
print(client.completions.create(model="smol", prompt="hello").choices[0].text)


async def main():
    client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
    print((await client.chat.completions.create(**ASK)).choices[0].message.content)
    stream = await client.chat.completions.create(**ASK, stream=True)
    print(text([part async for part in stream]))
    await client.close()


asyncio.run(main())

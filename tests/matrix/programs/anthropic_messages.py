"""anthropic: messages whole, streamed in both ways, raw, async."""

import asyncio
import sys

import anthropic

BASE = sys.argv[1].rpartition("/v1")[0]
ASK = {"model": "smol", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}
client = anthropic.Anthropic(base_url=BASE, api_key="x", max_retries=0)

print(client.messages.create(**ASK).content[0].text)
print([event.type for event in client.messages.create(**ASK, stream=True)])
with client.messages.stream(**ASK) as stream:
    print("".join(stream.text_stream))
print(client.messages.with_raw_response.create(**ASK).parse().content[0].text)


async def main():
    client = anthropic.AsyncAnthropic(base_url=BASE, api_key="x", max_retries=0)
    print((await client.messages.create(**ASK)).content[0].text)
    async with client.messages.stream(**ASK) as stream:
        print("".join([text async for text in stream.text_stream]))
    await client.close()


asyncio.run(main())

"""Kind 6: what the SDK returns is dumped, pickled, copied and compared."""

# server: plain vllm
import copy
import pickle

from llm import body, openai

client = openai()
reply = client.chat.completions.create(**body("whole"))
print(reply.model_dump_json(), type(reply).__mro__)
print(pickle.loads(pickle.dumps(reply)) == reply, copy.deepcopy(reply) == reply)
raw = client.chat.completions.with_raw_response.create(**body("raw"))
print(raw.status_code, sorted(raw.headers), raw.parse().choices[0].message.content, raw.http_response.request.content)
with client.chat.completions.create(**body("streamed", stream=True)) as stream:
    print(type(stream), [chunk.model_dump_json() for chunk in stream])

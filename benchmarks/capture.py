"""Time that capture adds to one OpenAI-SDK call with a 25 KB reply (200 tokens with ids and log-probs), committed.

The same client class with and without our wrapper answers in turn from memory, so the difference of each pair is
capture alone. Three agents:

- `asked`: the agent itself asks for ids and log-probs and parses all of the reply, with and without capture; what
  is added is reading the exchange and the commit to LMDB.
- `upgraded`: an agent that asks for text only. Without capture its reply is small; captured, the request is
  upgraded, 25 KB come back, and the agent gets the small reply.
- `long`: `asked`, with a conversation that grows: 8,000 prompt tokens, of which each call adds 200.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

SERVER = "http://policy.test:80"
FIELDS = {"logprobs": True, "extra_body": {"return_token_ids": True}}


def reply(tokens: int = 200, prompt: int = 500, *, with_ids: bool = True) -> bytes:
    """What vLLM 0.32 sends for `tokens` sampled tokens behind a prompt of `prompt`."""
    words = [f" token{number}" for number in range(tokens)]
    content = [
        {"token": word, "logprob": -0.1234567 * number, "bytes": list(word.encode()), "top_logprobs": []}
        for number, word in enumerate(words)
    ]
    choice = {
        "index": 0, "message": {"role": "assistant", "content": "".join(words), "tool_calls": []},
        "logprobs": {"content": content} if with_ids else None, "finish_reason": "stop",
        "token_ids": list(range(1000, 1000 + tokens)) if with_ids else None,
    }  # fmt: skip
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    return json.dumps(
        {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "policy", "choices": [choice],
            "usage": usage, "prompt_token_ids": list(range(prompt)) if with_ids else None,
        },
        separators=(",", ":"),
    ).encode()  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="time added per captured call")
    parser.add_argument("--calls", type=int, default=1000, help="pairs of calls each (default 1000)")
    calls = parser.parse_args().calls
    folder = tempfile.mkdtemp()
    models = {"policy": {"root": "m", "adapter": None, "defaults": {}}}
    info = {"vllm": True, "logprobs_mode": "processed", "models": models}
    os.environ |= {"AGENTLIGHT_STORE": folder, "AGENTLIGHT_SERVERS": json.dumps({SERVER: info})}
    os.environ["AGENTLIGHT_RAISE"] = "1"  # an error of ours must not look fast

    import httpx2
    import openai

    from agentlight_instrumentation import bootstrap
    from agentlight_store import Store

    bare_send = httpx2.Client._send_single_request
    bootstrap.start()

    class BareClient(httpx2.Client):
        _send_single_request = bare_send

    def pair(answer: Callable[[httpx2.Request], bytes]) -> list[openai.OpenAI]:
        def respond(request: httpx2.Request) -> httpx2.Response:
            headers = {"content-type": "application/json"}
            return httpx2.Response(200, stream=httpx2.ByteStream(answer(request)), headers=headers)

        kinds = (BareClient, httpx2.Client)
        transports = [kind(transport=httpx2.MockTransport(respond)) for kind in kinds]
        return [openai.OpenAI(base_url=SERVER + "/v1", api_key="none", http_client=http) for http in transports]

    full, small = reply(), reply(with_ids=False)
    longer = {number: reply(200, 8000 + 200 * number) for number in range(40)}

    def question(number: int) -> list[Any]:
        return [{"role": "user", "content": f"question {number}: " + "text " * 100}]

    def compare(name: str, clients: list[openai.OpenAI], pairs: int, **fields: Any) -> None:
        def seconds(client: openai.OpenAI, number: int) -> float:
            start = time.perf_counter()
            client.chat.completions.create(model="policy", messages=question(number), **fields)
            return time.perf_counter() - start

        for number in range(50):
            [seconds(client, number) for client in clients]
        times = [[seconds(client, number) for client in clients] for number in range(pairs)]
        without, captured = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        added = statistics.median(b - a for a, b in times) * 1e3
        print(f"{name:<10} {without:8.3f} ms {captured:8.3f} ms {captured / without:7.2f}x   added {added:+.3f} ms")

    print(f"reply {len(full) / 1000:.1f} KB, {calls} calls each, medians of pairs made in turn")
    print(f"{'agent':<10} {'alone':>11} {'captured':>11} {'ratio':>8}")
    compare("asked", pair(lambda _: full), calls, **FIELDS)
    compare("upgraded", pair(lambda request: full if b'"return_token_ids":true' in request.content else small), calls)
    turn = iter(range(1 << 30))
    compare("long", pair(lambda _: longer[next(turn) // 2 % len(longer)]), calls, **FIELDS)
    spans = [span for rollout in Store.open(folder).rollouts() for span in rollout.spans]
    assert len(spans) == 3 * (calls + 50) and all(span.trainable for span in spans), "not every call was captured"


if __name__ == "__main__":
    main()

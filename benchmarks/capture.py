"""Time that capture adds to one OpenAI-SDK call with a 25 KB reply (200 tokens with ids and log-probs), committed.

The same client class with and without our wrapper answers in turn from memory, so the difference of each pair is
capture alone: reading request and reply, hiding what was added, and the commit to LMDB.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time

CALLS = 1000
SERVER = "http://policy.test:80"


def reply(tokens: int = 200) -> bytes:
    """What vLLM 0.32 sends for `tokens` sampled tokens behind a prompt of 500."""
    words = [f" token{number}" for number in range(tokens)]
    content = [
        {"token": word, "logprob": -0.1234567 * number, "bytes": list(word.encode()), "top_logprobs": []}
        for number, word in enumerate(words)
    ]
    choice = {
        "index": 0, "message": {"role": "assistant", "content": "".join(words), "tool_calls": []},
        "logprobs": {"content": content}, "finish_reason": "stop", "token_ids": list(range(1000, 1000 + tokens)),
    }  # fmt: skip
    usage = {"prompt_tokens": 500, "completion_tokens": tokens, "total_tokens": 500 + tokens}
    return json.dumps(
        {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "policy", "choices": [choice],
            "usage": usage, "prompt_token_ids": list(range(500)),
        },
        separators=(",", ":"),
    ).encode()  # fmt: skip


def main() -> None:
    folder = tempfile.mkdtemp()
    info = {
        "vllm": True,
        "logprobs_mode": "processed",
        "models": {"policy": {"root": "m", "adapter": None, "defaults": {}}},
    }
    os.environ["AGENTLIGHT_STORE"] = folder
    os.environ["AGENTLIGHT_SERVERS"] = json.dumps({SERVER: info})
    os.environ["AGENTLIGHT_RAISE"] = "1"

    import httpx2
    import openai

    from agentlight_instrumentation import bootstrap
    from agentlight_store import Store

    bare_send = httpx2.Client._send_single_request
    bootstrap.start()

    class BareClient(httpx2.Client):
        _send_single_request = bare_send

    body = reply()

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "application/json"})

    def client(kind: type[httpx2.Client]) -> openai.OpenAI:
        http = kind(transport=httpx2.MockTransport(answer))
        return openai.OpenAI(base_url=SERVER + "/v1", api_key="none", http_client=http)

    bare, captured = client(BareClient), client(httpx2.Client)

    def seconds(agent: openai.OpenAI, number: int) -> float:
        question = f"question {number}: " + "text " * 100
        start = time.perf_counter()
        agent.chat.completions.create(model="policy", messages=[{"role": "user", "content": question}])
        return time.perf_counter() - start

    for number in range(50):
        seconds(bare, number)
        seconds(captured, number)
    pairs = [(seconds(bare, number), seconds(captured, number)) for number in range(CALLS)]
    without, with_capture = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    added = statistics.median(b - a for a, b in pairs) * 1e3
    (rollout,) = Store.open(folder).rollouts()
    assert rollout.calls == CALLS + 50 and all(span.trainable for span in rollout.spans)
    print(f"reply {len(body) / 1000:.1f} KB, {CALLS} calls each, medians of pairs made in turn")
    print(f"openai call, no network   {without:.3f} ms")
    print(f"the same, captured        {with_capture:.3f} ms   {with_capture / without:.2f}x")
    print(f"added by capture          {added:.3f} ms")


if __name__ == "__main__":
    main()

"""Memory and descriptors of one agent process over 10,000 calls and 5,000 abandoned streams through httpx.

The transport answers from memory: whatever grows is the agent's process, with capture in it. Conversations are of five
calls and rollouts of a hundred; an abandoned stream is left after its first event, every other one without a close. A
line is printed each 1,000; both kinds begin with a round that is not judged, in which caches fill.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from capture import SERVER, reply

STEP = 1000
GROWTH = 4.0  # MB from the first judged line to the last: more than a process breathes, and more than a map's pages
STREAM = [
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"policy","choices":[{"index":0,"delta":'
    b'{"content":"word "},"logprobs":{"content":[{"token":"word","logprob":-0.5}]},"token_ids":[7]}]}\n\n'
] * 50


def private_megabytes() -> float:
    """Resident memory without files: the store's pages are the page cache's, and leave when others need the room."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> None:
    parser = argparse.ArgumentParser(description="memory and descriptors over many calls")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=5_000)
    options = parser.parse_args()
    folder = tempfile.mkdtemp()
    models = {"policy": {"root": "m", "adapter": None, "defaults": {}}}
    info = {"vllm": True, "logprobs_mode": "processed", "models": models}
    os.environ |= {
        "AGENTLIGHT_STORE": folder,
        "AGENTLIGHT_SERVERS": json.dumps({SERVER: info}),
        "AGENTLIGHT_RAISE": "1",
    }

    import httpx

    from agentlight_instrumentation import bootstrap, context
    from agentlight_store import Store, new_rollout_id

    bootstrap.start()
    whole = reply()

    class Events(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from STREAM

    def respond(request: httpx.Request) -> httpx.Response:
        if b'"stream":true' in request.content:
            return httpx.Response(200, stream=Events(), headers={"content-type": "text/event-stream"})
        return httpx.Response(200, stream=httpx.ByteStream(whole), headers={"content-type": "application/json"})

    client = httpx.Client(transport=httpx.MockTransport(respond), base_url=SERVER)

    def body(number: int) -> dict[str, Any]:
        asked = [{"role": "user", "content": f"question {number - number % 5 + turn}: " + "text " * 50}
                 for turn in range(number % 5 + 1)]  # fmt: skip
        return {"model": "policy", "messages": asked}

    def call(number: int) -> None:
        client.post("/v1/chat/completions", json=body(number)).read()

    def abandoned(number: int) -> None:
        request = client.build_request("POST", "/v1/chat/completions", json=body(number) | {"stream": True})
        response = client.send(request, stream=True)
        next(response.iter_raw())
        if number % 2:
            response.close()

    steady = [
        measure(name, times, action, context, new_rollout_id)
        for name, times, action in (("calls", options.calls, call), ("abandoned streams", options.streams, abandoned))
    ]
    store = Store.open(folder)
    recorded = sum(store.rollout(one).calls for one in store.rollout_ids())
    assert recorded == options.calls + options.streams, f"{recorded} calls are in the store"
    print("steady" if all(steady) else "NOT STEADY")
    sys.exit(not all(steady))


def measure(name: str, times: int, action: Callable[[int], None], context: Any, new_rollout_id: Any) -> bool:
    lines = []
    for number in range(times):
        if number % 100 == 0:
            context.rollout.set(new_rollout_id())
        action(number)
        if (number + 1) % STEP == 0:
            gc.collect()
            lines.append((private_megabytes(), descriptors()))
            print(f"{number + 1:6,} {name:<18} {lines[-1][0]:7.1f} MB {lines[-1][1]:4} descriptors", flush=True)
    judged = lines[1:] or lines
    return judged[-1][0] - judged[0][0] < GROWTH and judged[-1][1] == judged[0][1]


if __name__ == "__main__":
    main()

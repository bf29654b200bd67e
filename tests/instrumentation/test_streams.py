"""Every way out of a stream gives exactly one record, with what had arrived."""

from __future__ import annotations

from conftest import RunAgent
from fake_server import FakeServer

WAYS = """
import asyncio, gc, json, sys
import httpx, openai, requests

ASK = dict(messages=[{"role": "user", "content": "leave"}], stream=True)
URL = sys.argv[1] + "/chat/completions"
client = openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
kept = []

def create(way, **more):
    return client.chat.completions.create(**ASK, model="smol", user=way, **more)

def take(stream, count=3):
    return [chunk for _, chunk in zip(range(count), stream)]

def sync():
    list(create("exhaust"))
    for chunk in create("break"):
        break
    stream = create("break, kept to the end")
    kept.append(stream)
    take(stream)
    stream = create("close")
    take(stream)
    stream.close()
    with create("with") as stream:
        take(stream)
    stream = create("drop")
    take(stream)
    del stream
    gc.collect()
    try:
        with create("exception") as stream:
            for chunk in stream:
                raise ValueError("the agent's own")
    except ValueError:
        pass
    create("never iterated").close()
    create("never iterated, dropped")
    gc.collect()
    try:
        list(client.chat.completions.create(**ASK, model="smol+drop_after=4", user="lost"))
    except Exception as error:
        print("lost:", type(error).__name__)
    with client.chat.completions.with_streaming_response.create(**ASK, model="smol", user="unread"):
        pass
    body = {**ASK, "model": "smol"}
    with httpx.stream("POST", URL, json={**body, "user": "httpx with"}) as reply:
        next(reply.iter_lines())
    reply = requests.post(URL, json={**body, "user": "requests close"}, stream=True)
    next(reply.iter_lines())
    reply.close()
    reply = requests.post(URL, json={**body, "user": "requests drop"}, stream=True)
    next(reply.iter_content(5))
    del reply
    gc.collect()
    try:
        list(requests.post(URL, json={**body, "model": "smol+drop_after=4", "user": "requests lost"}, stream=True))
    except requests.RequestException as error:
        print("requests lost:", type(error).__name__)

async def asynchronous():
    client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="x", max_retries=0)
    def create(way, model="smol"):
        return client.chat.completions.create(**ASK, model=model, user=way)
    async def read(way, model="smol", count=3):
        stream = await create(way, model)
        async for chunk in stream:
            count -= 1
            if not count:
                return stream
        return stream
    await read("async exhaust", count=-1)
    await read("async break")
    gc.collect()
    await asyncio.sleep(0)
    await (await read("async close")).close()
    async with await create("async with") as stream:
        async for chunk in stream:
            break
    try:
        async with await create("async exception") as stream:
            async for chunk in stream:
                raise ValueError
    except ValueError:
        pass
    await (await create("async never iterated")).close()
    try:
        await read("async lost", "smol+drop_after=4", count=-1)
    except Exception as error:
        print("async lost:", type(error).__name__)
    task = asyncio.create_task(read("async cancelled", "smol+chunk_delay=0.2", count=-1))
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    task = asyncio.create_task(read("async timeout", "smol+chunk_delay=0.2", count=-1))
    try:
        await asyncio.wait_for(task, 0.5)
    except asyncio.TimeoutError:
        print("async timeout")
    await client.close()

sync()
asyncio.run(asynchronous())
"""


def test_every_way_out_is_one_record(run_agent: RunAgent, server: FakeServer) -> None:
    """Sync and async, SDK and by hand; the status is "partial" exactly where the reply had not come to its end."""
    plain = run_agent(WAYS, server.url, capture=False)
    server.requests.clear()
    run = run_agent(WAYS, server.url)
    # Not stderr: asyncio closes the generators of an abandoned stream in any order, and httpx2's may complain.
    assert run.stdout == plain.stdout
    assert run.events("lost") == []
    spans = sorted(run.spans, key=lambda span: span.started_at)
    ways = [call.json["user"] for call in server.calls]
    assert len(spans) == len(ways) == len(set(ways))
    by_way = dict(zip(ways, spans, strict=True))
    complete = {way for way, span in by_way.items() if span.status == "ok"}
    assert complete == {"exhaust", "async exhaust"}
    for call in server.calls:
        span = by_way[call.json["user"]]
        if span.status == "ok":
            assert span.trainable and list(span.completion_ids or ()) == call.choices[0].ids
            continue
        assert (span.status, span.trainable) == ("partial", False)
        assert span.reason == "the reply was not received to its end"
        arrived = list(span.completion_ids or ())
        assert arrived == call.choices[0].ids[: len(arrived)]
        if call.json["user"] in ("break, kept to the end", "async break"):
            assert arrived and (span.text or "").startswith(call.choices[0].tokens[0])
    assert (by_way["lost"].error, by_way["async lost"].error) == ("RemoteProtocolError", "RemoteProtocolError")
    assert len(by_way["lost"].completion_ids or ()) == 3  # the first of the four chunks names the role


def test_a_left_stream_of_another_server_is_one_record_too(run_agent: RunAgent, server: FakeServer) -> None:
    """Where nothing is added, what has arrived is read at the end, and text that looks like the end is not one."""
    server.owned_by = "someone"
    run = run_agent(WAYS, server.url)
    assert len(run.spans) == len(server.calls)
    assert [span.status for span in run.spans].count("ok") == 2
    for span, call in zip(run.spans, server.calls, strict=True):
        if span.status == "ok":
            assert span.text == call.choices[0].message["content"]


def test_thousands_of_broken_streams_leave_nothing_behind(run_agent: RunAgent, server: FakeServer) -> None:
    """500 streams left after one line, in one process: 500 records, and no exchange stays alive."""
    agent = """
    import gc, httpx, sys
    client = httpx.Client()
    for number in range(500):
        body = {"model": "smol", "messages": [{"role": "user", "content": "x"}], "stream": True}
        with client.stream("POST", sys.argv[1] + "/chat/completions", json=body) as reply:
            next(reply.iter_lines())
    del reply
    for _ in range(3):
        gc.collect()
    print(sum(type(thing).__name__ == "Exchange" for thing in gc.get_objects()))
    """
    run = run_agent(agent, server.url)
    assert run.result == 0
    assert len(run.spans) == 500

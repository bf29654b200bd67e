"""An agent that calls a model by hand over one library, in every way it has to read a reply."""

import asyncio
import io
import json
import sys

URL = sys.argv[1] + "/chat/completions"
which = sys.argv[2]
view = {}


def body(stream=False, **more):
    return {"model": "smol", "messages": [{"role": "user", "content": "by hand"}], "stream": stream, **more}


def over_urllib3():
    import urllib3

    http = urllib3.PoolManager()
    reply = http.request("POST", URL, body=json.dumps(body()), headers={"X-Mine": "1"})
    view["whole"] = reply.data.decode(), reply.headers["content-length"], type(reply).__name__
    reply = http.request("POST", URL, body=json.dumps(body()).encode(), preload_content=False)
    view["late"] = reply.read().decode()
    reply.release_conn()
    reply = http.request("POST", URL, body=json.dumps(body(True)), preload_content=False)
    view["stream"] = b"".join(reply.stream(7)).decode()
    reply = http.request("POST", URL, body=json.dumps(body(True)))
    view["stream preloaded"] = reply.data.decode()
    reply = http.request("POST", URL, body=json.dumps(body(True)), preload_content=False)
    reply.auto_close = False
    view["text"] = list(io.TextIOWrapper(reply, encoding="utf-8"))
    reply = http.request("POST", URL, body=json.dumps(body(True, model="smol+gzip=always")), preload_content=False)
    view["gz"] = reply.read().decode()
    reply = http.request("POST", URL, body=json.dumps({**body(), "model": "smol+gzip=always"}))
    view["gz whole"] = reply.data.decode()
    reply = http.request("POST", URL, body=json.dumps({**body(), "model": "smol+redirect"}))
    view["redirect"] = reply.data.decode(), reply.geturl()


def over_http_client():
    import http.client
    import urllib.request
    from urllib.parse import urlsplit

    parts = urlsplit(URL)
    conn = http.client.HTTPConnection(parts.hostname, parts.port)
    for name, stream in (("whole", False), ("stream", True)):
        conn.request("POST", parts.path, json.dumps(body(stream)), {"X-Mine": "1"})
        reply = conn.getresponse()
        view[name] = reply.read().decode(), reply.getheader("content-length"), type(reply).__name__
    conn.request("POST", parts.path, json.dumps(body(True)))
    view["lines"] = [line.decode() for line in conn.getresponse()]
    conn.request("POST", parts.path, json.dumps(body(True)))
    reply = conn.getresponse()
    parts_ = []
    while part := reply.read(10):
        parts_.append(part.decode("latin1"))
    view["read 10"] = "".join(parts_)
    conn.request("POST", parts.path, json.dumps(body(True)))
    reply = conn.getresponse()
    b = bytearray(13)
    got = b""
    while n := reply.readinto(b):
        got += b[:n]
    view["readinto"] = got.decode()
    conn.request("POST", parts.path, json.dumps(body(True)))
    reply = conn.getresponse()
    got = b""
    while part := reply.read1(5):
        got += part
    view["read1"] = got.decode()
    conn.request("POST", parts.path, json.dumps(body(True)))
    view["text"] = list(io.TextIOWrapper(conn.getresponse(), encoding="utf-8"))
    request = urllib.request.Request(URL, json.dumps(body()).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        view["urllib"] = reply.read().decode(), reply.status, reply.headers["content-length"]
    request = urllib.request.Request(URL, json.dumps(body(True)).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        view["urllib stream"] = [line.decode() for line in reply]
    conn.request("POST", parts.path, json.dumps({**body(), "model": "smol+gzip=always"}))
    import gzip

    reply = conn.getresponse()
    data = reply.read()
    view["gz"] = (gzip.decompress(data) if reply.getheader("content-encoding") else data).decode()
    conn.close()


async def over_aiohttp():
    import aiohttp

    async with aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session:
        async with session.post(URL, json=body(), headers={"X-Mine": "1"}) as reply:
            view["whole"] = (
                await reply.json(),
                reply.headers["content-length"],
                str(reply.url),
                type(reply.content).__name__,
            )
        reply = await session.post(URL, data=json.dumps(body()).encode(), headers={"Content-Type": "application/json"})
        view["awaited"] = await reply.text()
        async with session.post(URL, json=body(True)) as reply:
            view["lines"] = [line.decode() async for line in reply.content]
        async with session.post(URL, json=body(True)) as reply:
            view["any"] = "".join([part.decode("latin1") async for part in reply.content.iter_any()])
        async with session.post(URL, json=body(True)) as reply:
            view["chunked"] = "".join([part.decode("latin1") async for part in reply.content.iter_chunked(9)])
        async with session.post(URL, json={**body(True), "model": "smol+gzip=always"}) as reply:
            view["gz"] = await reply.text()
        async with session.post(URL, json={**body(), "model": "smol+redirect"}) as reply:
            view["redirect"] = await reply.text()
    base = sys.argv[1].rsplit("/v1")[0]
    async with (
        aiohttp.ClientSession(base_url=base) as session,
        session.post("/v1/chat/completions", json=body(n=2)) as reply,
    ):
        view["base"] = await reply.text()


if which == "aiohttp":
    asyncio.run(over_aiohttp())
else:
    globals()["over_" + which]()
print(json.dumps(view))

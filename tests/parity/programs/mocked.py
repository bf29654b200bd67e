"""Kind 9: httpx's MockTransport, a transport of the agent's own, and ASGI: no network."""

# server: plain
# elsewhere: 4
import asyncio

import httpx
import httpx2
from llm import body

URL = "http://mocked.test/v1/chat/completions"
asked = []


def answer(library):
    def handler(request):
        asked.append((request.method, str(request.url), request.content, list(request.headers.raw)))
        return library.Response(200, json={"choices": [{"index": 0, "message": {"content": "mocked"}}]})

    return handler


class Own(httpx.BaseTransport):
    def handle_request(self, request):
        asked.append((request.method, request.read()))
        return httpx.Response(503, text="own", extensions={"mine": 1})


for library in (httpx, httpx2):
    with library.Client(transport=library.MockTransport(answer(library))) as client:
        reply = client.post(URL, json=body())
        print(reply.json(), reply.is_closed, sorted(reply.extensions), type(reply.stream).__name__)
with httpx.Client(transport=Own()) as client:
    reply = client.post(URL, json=body())
    print(reply.status_code, reply.text, reply.extensions)


async def app(scope, receive, send):
    message = await receive()
    asked.append((scope["method"], scope["path"], message["body"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"from the app"})


async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        reply = await client.post("/v1/chat/completions", json=body())
        print(reply.text, reply.headers)


asyncio.run(main())
print([one for one in asked if one[0] != "GET"])

"""http.client below `request`: a call that is sent by putrequest, putheader, endheaders and send."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RunAgent
from fake_server import FakeServer
from networks import Proxy, private_ca

REASON = "sent in parts (http.client's putrequest): nothing could be added to it, nor could it go elsewhere"
AGENT = """
import http.client, io, json, ssl, sys
from urllib.parse import urlsplit
url, authority, proxy = urlsplit(sys.argv[1] + "/chat/completions"), *sys.argv[2:4]
if authority:
    at = urlsplit(proxy)
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(at.hostname, at.port, context=context)
    connection.set_tunnel(url.hostname, url.port)
else:
    connection = http.client.HTTPConnection(url.netloc)
seen = []

def begin(**headers):
    connection.putrequest("POST", url.path)
    connection.putheader("Content-Type", "application/json")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)

def body(stream=False, **more):
    message = {"role": "user", "content": "hi"}
    return json.dumps({"model": "smol", "messages": [message], "stream": stream, **more}).encode()

def reply():
    got = connection.getresponse()
    seen.append([got.status, got.read().decode(), type(got).__name__])

for stream in (False, True):
    data = body(stream)
    begin(Content_Length=str(len(data)))
    connection.endheaders(data)
    reply()
    begin(Content_Length=str(len(data)))
    connection.endheaders()
    connection.send(data[:9])
    connection.send(bytearray(data[9:]))
    reply()
    begin(Content_Length=str(len(data)))
    connection.endheaders()
    connection.send(data[at : at + 7] for at in range(0, len(data), 7))
    reply()
    begin(Transfer_Encoding="chunked") if CHUNKED else begin(Content_Length=str(len(data)))
    connection.endheaders(iter([data[:9], data[9:]]), encode_chunked=CHUNKED)
    reply()
    connection.request("POST", url.path, io.BytesIO(data), {"Content-Length": str(len(data))})
    reply()
connection.putrequest("GET", "/health")
connection.endheaders()
reply()
print(json.dumps(seen))
"""


def dechunked(server: FakeServer) -> None:
    """The server reads a request's body in chunks, too."""
    own = server.RequestHandlerClass

    class Handler(own):  # type: ignore[misc,valid-type]
        def _received(self):  # type: ignore[no-untyped-def]
            if self.headers.get("Transfer-Encoding") == "chunked":
                import io

                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                del self.headers["Transfer-Encoding"]
                self.headers["Content-Length"] = str(len(body))
                kept, self.rfile = self.rfile, io.BytesIO(body)
                try:
                    return super()._received()
                finally:
                    self.rfile = kept
            return super()._received()

    server.RequestHandlerClass = Handler  # type: ignore[assignment]


@pytest.mark.parametrize("way", ["plain", "tunnel"])
def test_a_call_in_parts_is_recorded_with_its_text(
    run_agent: RunAgent, server: FakeServer, tmp_path: Path, way: str
) -> None:
    """Bytes, pieces, a generator, chunks, a file; whole and streamed. Nothing is added, so there are no ids: said."""
    dechunked(server)
    arguments, proxy = [server.url, "", ""], None
    if way == "tunnel":
        path, context = private_ca(tmp_path)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        proxy = Proxy()
        arguments = [server.url.replace("http://127.0.0.1", "https://localhost"), str(path), proxy.url]
    agent = AGENT.replace("CHUNKED", "True")
    plain = run_agent(agent, *arguments, capture=False)
    server.requests.clear()
    run = run_agent(agent, *arguments)
    assert run.result == plain.result
    assert run.events("lost") == []
    assert len(run.spans) == len(server.calls) == 10
    for span, call in zip(run.spans, server.calls, strict=True):
        assert (span.status, span.text) == ("ok", call.choices[0].message["content"])
        assert (span.trainable, span.reason) == (False, REASON)
        assert span.messages == call.json["messages"]
    if proxy is not None:
        proxy.close()


def test_a_call_in_parts_whose_agent_asks_for_ids_itself_is_trainable(run_agent: RunAgent, server: FakeServer) -> None:
    agent = """
    import http.client, json, sys
    from urllib.parse import urlsplit
    url = urlsplit(sys.argv[1] + "/chat/completions")
    message = {"role": "user", "content": "hi"}
    data = json.dumps({"model": "smol", "messages": [message], "return_token_ids": True, "logprobs": True}).encode()
    connection = http.client.HTTPConnection(url.netloc)
    connection.putrequest("POST", url.path)
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    print(len(connection.getresponse().read()))
    """
    run = run_agent(agent, server.url)
    [span] = run.spans
    assert span.trainable, span.reason


def test_a_file_that_is_sent_below_request_is_said_to_be_lost(run_agent: RunAgent, server: FakeServer) -> None:
    agent = """
    import http.client, io, json, sys
    from urllib.parse import urlsplit
    url = urlsplit(sys.argv[1] + "/chat/completions")
    data = json.dumps({"model": "smol", "messages": [{"role": "user", "content": "hi"}]}).encode()
    connection = http.client.HTTPConnection(url.netloc)
    connection.putrequest("POST", url.path)
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders()
    connection.send(io.BytesIO(data))
    print(connection.getresponse().status)
    """
    run = run_agent(agent, server.url)
    assert run.result == 200 and run.spans == []
    assert [event["reason"] for event in run.events("lost")] == [
        "the body of a request to /chat/completions is a BytesIO, which can be read only once"
    ]

"""A small real HTTP server that answers as vLLM 0.32 does, or as badly as it is told to; it has no model.

`server.requests` is the log of every request with what was answered: the truth that tests compare with.
Switches are attributes of `server.switches`; a request sets its own with a model named "smol+name=value+name".
`python tests/fake_server.py PORT` serves on a port until it is killed.
"""

from __future__ import annotations

import gzip
import socket
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_dialects import REPLIES
from fake_model import KNOWN_FIELDS, UNREADABLE, Request, Switches, render, sample, to_json, token_id


class FakeServer(ThreadingHTTPServer):
    """Serves in a thread from construction to `close()`. `failures` are statuses for the next POSTs."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, *, owned_by: str = "vllm", tokens: bool = False, **switches: Any) -> None:
        """`tokens`: as a vLLM that runs agentlight_run.tokens."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.tokens = tokens
        self.switches = Switches(**switches)
        self.owned_by = owned_by
        self.models: dict[str, dict[str, Any]] = {"smol": {"root": "some/base-model", "parent": None}}
        self.failures: list[int] = []
        self.delays: list[float] = []  # seconds that the next POSTs wait for their reply
        self.is_deaf = False  # hangs up on every GET
        self.requests: list[Request] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL, as one gives it to an SDK."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def calls(self) -> list[Request]:
        """The POSTed LLM calls."""
        return [
            one for one in self.requests if one.method == "POST" and one.path.split("?")[0].endswith(tuple(REPLIES))
        ]

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that hangs up is part of the tests
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FakeServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        request = self._received()
        if self.server.is_deaf:
            return self._hang_up()
        if request.path.split("?")[0].endswith("/models"):
            owner = {"object": "model", "owned_by": self.server.owned_by}
            data = [{"id": name, **owner, **model} for name, model in self.server.models.items()]
            told = {"agentlight_tokens": True} if self.server.tokens else {}
            return self._send(request, 200, to_json({"object": "list", "data": data, **told}))
        self._send(request, 200 if request.path.endswith("/health") else 404, b"")

    def do_POST(self) -> None:
        request = self._received()
        path = request.path.split("?")[0]
        if path.endswith("_lora_adapter"):
            return self._adapter(request, load=path.endswith("/load_lora_adapter"))
        answering = next((reply for suffix, reply in REPLIES.items() if path.endswith(suffix)), None)
        if answering is None:
            return self._send(request, 404, b"")
        if self.server.delays:
            time.sleep(self.server.delays.pop(0))
        body = request.json
        tells = self.server.tokens and bool(body.pop("agentlight_tokens", False))
        switches = self.server.switches.of_model(str(body.get("model") or path.rpartition("/")[2].partition(":")[0]))
        status = self.server.failures.pop(0) if self.server.failures else switches.status
        if switches.redirect and not path.startswith("/moved"):
            return self._send(request, 307, b"", location="/moved" + request.path)
        if status >= 400:
            return self._send(request, status, _error(status, f"status {status} was asked for"))
        if switches.no_logprobs and body.get("include"):
            return self._send(request, 400, _error(400, "logprobs are not supported with this model"))
        if switches.strict and (unknown := sorted(set(body) - KNOWN_FIELDS)):
            found = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs"} for name in unknown]
            return self._send(request, 422, to_json({"detail": found}))
        if path.endswith("/chat/completions") and not isinstance(body.get("messages"), list):
            return self._send(request, 400, _error(400, "'messages' is no list"))
        body = answering.asked(body, request.path)
        prompt = render(body["messages"], body.get("tools"))
        request.prompt_ids = [token_id(token) for token in prompt]
        request.choices = [sample(prompt, index, body, switches) for index in range(body.get("n") or 1)]
        reply = answering(body, request, switches)
        raw = UNREADABLE[switches.raw] if switches.raw else None
        told = to_json(told_of(request)) if tells else b""
        if body.get("stream"):
            events = reply.events() if raw is None else iter([b"data: " + raw + b"\n\n"])
            self._stream(request, switches, _telling(events, told) if told else events, reply.content_type)
        else:
            whole = reply.whole() if raw is None else raw
            told = told and b',"agentlight_tokens":' + told + b"}"
            self._whole(request, switches, whole[:-1] + told if told and whole.endswith(b"}") else whole)

    def _received(self) -> Request:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body)
        self.server.requests.append(request)
        return request

    def _adapter(self, request: Request, *, load: bool) -> None:
        name = request.json["lora_name"]
        if load:
            parent = next(key for key, model in self.server.models.items() if model["parent"] is None)
            self.server.models[name] = {"root": request.json["lora_path"], "parent": parent}
        else:
            self.server.models.pop(name, None)
        self._send(request, 200, b"Success")

    def _whole(self, request: Request, switches: Switches, body: bytes) -> None:
        if self._zipped(switches):
            return self._send(request, 200, gzip.compress(body), content_encoding="gzip")
        if switches.drop_after >= 0:
            self._send(request, 200, body[: len(body) // 2], content_length=str(len(body)))
            return self._hang_up()
        self._send(request, 200, body)

    def _stream(self, request: Request, switches: Switches, events: Iterator[bytes], content_type: str) -> None:
        request.status = 200
        self.send_response(200)
        charset = "" if switches.no_charset else "; charset=utf-8"
        self.send_header("Content-Type", content_type + charset)
        self.send_header("Transfer-Encoding", "chunked")
        zipped = zlib.compressobj(wbits=31) if self._zipped(switches) else None
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        for number, piece in enumerate(_recut(events, switches.chunk_bytes)):
            if number == switches.drop_after:
                return self._hang_up()
            time.sleep(switches.chunk_delay)
            self._chunk(zipped.compress(piece) + zipped.flush(zlib.Z_SYNC_FLUSH) if zipped else piece)
        if zipped:
            self._chunk(zipped.flush())
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _zipped(self, switches: Switches) -> bool:
        accepted = "gzip" in (self.headers.get("Accept-Encoding") or "")
        return switches.gzip == "always" or (switches.gzip == "accepted" and accepted)

    def _send(self, request: Request, status: int, body: bytes, **headers: str) -> None:
        request.status = status
        self.send_response(status)
        own = {"content_type": "application/json", "content_length": str(len(body)), "retry_after_ms": "1"}
        for name, value in {**own, **headers}.items():
            if name != "retry_after_ms" or status >= 400:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


def _error(status: int, message: str) -> bytes:
    return to_json({"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}})


def told_of(request: Request) -> list[Any]:
    """What agentlight_run.tokens tells of a call."""
    choices = [
        {"index": index, "token_ids": one.ids, "logprobs": one.logprobs} for index, one in enumerate(request.choices)
    ]
    return [{"prompt_token_ids": request.prompt_ids, "choices": choices, "sampling": {"temperature": 0.25}}]


def _telling(events: Iterator[bytes], told: bytes) -> Iterator[bytes]:
    """The middleware tells before the first bytes that are sent after the last token."""
    *before, last = events
    end = before.pop() if last == b"data: [DONE]\n\n" else b""
    yield from before
    yield b'data: {"agentlight_tokens":' + told + b"}\n\n" + end + last


def _recut(events: Iterator[bytes], size: int) -> Iterator[bytes]:
    if not size:
        yield from events
        return
    whole = b"".join(events)
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


if __name__ == "__main__":
    server = FakeServer(int(sys.argv[1]))
    print(server.url, flush=True)
    threading.Event().wait()

"""A vLLM that speaks HTTP/2 over TLS only: three tokens for every question, whole or streamed."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from typing import Any

import h2.config
import h2.connection
import h2.events

IDS = [7, 8, 9]
WORDS = ["one", " two", " three"]


class Http2Server:
    """Serves in threads from construction to `close()`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        context.set_alpn_protocols(["h2"])
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as secure:
                self._speak(secure)
        except OSError:
            return  # the client has gone

    def _speak(self, secure: ssl.SSLSocket) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        secure.sendall(connection.data_to_send())
        asked: dict[int, tuple[dict[str, str], bytearray]] = {}
        while data := secure.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    asked[event.stream_id] = dict(event.headers), bytearray()  # type: ignore[arg-type] # decoded text
                elif isinstance(event, h2.events.DataReceived):
                    asked[event.stream_id][1].extend(event.data)
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self._answer(connection, event.stream_id, *asked.pop(event.stream_id))
            secure.sendall(connection.data_to_send())

    def _answer(self, connection: Any, stream: int, headers: dict[str, str], body: bytearray) -> None:
        if headers[":method"] == "GET":
            parts = [json.dumps({"data": [{"id": "smol", "owned_by": "vllm", "root": "x", "parent": None}]}).encode()]
            kind = "application/json"
        else:
            request = json.loads(body)
            kind = "text/event-stream" if request["stream"] else "application/json"
            parts = _streamed(request) if request["stream"] else [_whole(request)]
        connection.send_headers(stream, [(":status", "200"), ("content-type", kind)])
        for part in parts:
            connection.send_data(stream, part)
        connection.end_stream(stream)


def _whole(request: dict[str, Any]) -> bytes:
    entries = [{"token": word, "logprob": -0.5} for word in WORDS]
    choice: dict[str, Any] = {
        "index": 0, "message": {"role": "assistant", "content": "".join(WORDS)}, "finish_reason": "stop",
        "logprobs": {"content": entries} if request.get("logprobs") else None,
        "token_ids": IDS if request.get("return_token_ids") else None,
    }  # fmt: skip
    reply: dict[str, Any] = {"object": "chat.completion", "model": "smol", "choices": [choice]}
    reply["usage"] = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    reply["prompt_token_ids"] = [1, 2] if request.get("return_token_ids") else None
    return json.dumps(reply).encode()


def _streamed(request: dict[str, Any]) -> list[bytes]:
    events = []
    for number, word in enumerate(WORDS):
        choice: dict[str, Any] = {
            "index": 0, "delta": {"content": word}, "finish_reason": None,
            "logprobs": {"content": [{"token": word, "logprob": -0.5}]} if request.get("logprobs") else None,
            "token_ids": [IDS[number]] if request.get("return_token_ids") else None,
        }  # fmt: skip
        event: dict[str, Any] = {"object": "chat.completion.chunk", "model": "smol", "choices": [choice]}
        if number == 0:
            event["prompt_token_ids"] = [1, 2] if request.get("return_token_ids") else None
        if number == 2:
            choice["finish_reason"] = "stop"
        events.append(b"data: " + json.dumps(event).encode() + b"\n\n")
    if (request.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        events.append(b"data: " + json.dumps({"model": "smol", "choices": [], "usage": usage}).encode() + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]

"""A private certificate authority and an HTTP proxy that tunnels, for tests of transports."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import trustme


def private_ca(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The authority's certificate as a file, and a server's context for localhost and 127.0.0.1."""
    authority = trustme.CA()
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return path, context


class Proxy(ThreadingHTTPServer):
    """Forwards plain requests and tunnels CONNECT; `seen` has the request lines."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Proxy  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_CONNECT(self) -> None:
        self.server.seen.append(self.requestline)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.send_response(200)
            self.end_headers()
            self._pump(upstream)
        self.close_connection = True

    def _forward(self) -> None:
        """The request as it came, in the form that a server expects; the connection ends with the reply."""
        self.server.seen.append(self.requestline)
        parts = urlsplit(self.path)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hop = ("proxy-", "connection")
        headers = [(name, value) for name, value in self.headers.items() if not name.lower().startswith(hop)]
        head = [f"{self.command} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as upstream:
            upstream.sendall("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)
            reply = upstream.makefile("rb")
            self.wfile.write(reply.readline() + b"Connection: close\r\n")
            while data := reply.read1():
                self.wfile.write(data)
        self.close_connection = True

    do_GET = do_POST = _forward

    def _pump(self, upstream: socket.socket) -> None:
        ends = {self.connection: upstream, upstream: self.connection}
        while True:
            for source in select.select(list(ends), [], [], 10)[0]:
                data = source.recv(65536)
                if not data:
                    return
                ends[source].sendall(data)

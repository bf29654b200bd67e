"""A server in a thread that sends the next event of a stream only when the reader says it has seen the last one."""

import socket
import threading


class Stepped:
    """`seen()` after each event; `patient` is False once a reader was not told within 10 s."""

    def __init__(self, events=5, owned_by="vllm"):
        self.events, self.owned_by, self.patient = events, owned_by, True
        self._turn = threading.Semaphore(1)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/chat/completions"
        threading.Thread(target=self._serve, daemon=True).start()

    def seen(self):
        self._turn.release()

    def _serve(self):
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as file:
                first, length = file.readline(), 0
                while line := file.readline().strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                file.read(length)
                if first.startswith(b"GET"):
                    models = b'{"object":"list","data":[{"id":"smol","owned_by":"%s"}]}' % self.owned_by.encode()
                    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                    connection.sendall(head % len(models) + models)
                else:
                    self._stream(connection)

    def _stream(self, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(self.events):
            self.patient = self._turn.acquire(timeout=10) and self.patient
            choice = b'{"index":0,"delta":{"content":"word %d"},"finish_reason":null}' % number
            self._chunk(connection, b'data: {"choices":[' + choice + b"]}\n\n")
        self._chunk(connection, b"data: [DONE]\n\n")
        connection.sendall(b"0\r\n\r\n")

    def _chunk(self, connection, data):
        connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

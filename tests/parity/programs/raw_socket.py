"""Kind 1: HTTP written by hand on a socket: nothing of ours touches it, and that no call was seen is said."""

# unseen: no HTTP library
import os
import socket
from urllib.parse import urlsplit

at = urlsplit(os.environ["LLM_URL"])
body = b'{"model":"smol","messages":[{"role":"user","content":"raw"}]}'
head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Length: {len(body)}\r\n"
with socket.create_connection((at.hostname, at.port)) as connection:
    connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
    with connection.makefile("rb") as file:
        print([line for line in file if not line.startswith(b"Date")])

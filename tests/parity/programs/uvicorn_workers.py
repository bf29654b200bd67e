"""Kind 4: uvicorn with two workers serves an app that asks; then SIGTERM ends it in order."""

# slow: a web server starts
# needs: uvicorn
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


async def app(scope, receive, send):
    import httpx
    from llm import CHAT, body

    if scope["type"] != "http":
        return
    async with httpx.AsyncClient() as client:
        text = (await client.post(CHAT, json=body("served"))).text
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "uvicorn_workers:app", "--workers", "2", "--port", str(port)]
    server = subprocess.Popen([*command, "--log-level", "error", "--lifespan", "off"])
    for _ in range(300):
        try:
            print(urllib.request.urlopen(f"http://127.0.0.1:{port}/").read())
            break
        except OSError:
            time.sleep(0.1)
    print([urllib.request.urlopen(f"http://127.0.0.1:{port}/").status for _ in range(3)])
    os.kill(server.pid, signal.SIGTERM)
    print(server.wait(20))

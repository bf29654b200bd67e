"""Kind 4: gunicorn forks two workers after the app is loaded; each asks."""

# slow: a web server starts
# needs: gunicorn
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


def app(environ, start_response):
    from llm import ask

    start_response("200 OK", [("Content-Type", "text/plain")])
    return [ask("served").encode()]


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", f"127.0.0.1:{port}"]
    server = subprocess.Popen([*command, "--log-level", "error", "--no-control-socket", "gunicorn_workers:app"])
    for _ in range(300):
        try:
            print(urllib.request.urlopen(f"http://127.0.0.1:{port}/").read())
            break
        except OSError:
            time.sleep(0.1)
    print([urllib.request.urlopen(f"http://127.0.0.1:{port}/").status for _ in range(3)])
    os.kill(server.pid, signal.SIGTERM)
    print(server.wait(20))

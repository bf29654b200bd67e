"""Kind 2: an audit hook of the agent that forbids subprocesses, threads and new sockets of ours."""

import sys
import threading

from llm import ask

mine = []


def hook(event, arguments):
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "_thread.start_new_thread"):
        mine.append(event)


sys.addaudithook(hook)
print(ask(), mine, threading.active_count(), [thread.name for thread in threading.enumerate()])

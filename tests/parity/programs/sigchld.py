"""Kind 4: SIGCHLD: a handler that reaps; and ignored from the start, so that children leave no status."""

# run: bash -c 'trap "" CHLD; python {program}'
import os
import signal

from llm import ask

print(signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT))
signal.signal(signal.SIGCHLD, lambda number, frame: reaped.append(os.waitpid(-1, os.WNOHANG)[1]))
reaped = []
if os.fork() == 0:
    ask("child")
    os._exit(3)
while not reaped:
    signal.sigtimedwait([], 0.05)
print(reaped, ask("parent"))

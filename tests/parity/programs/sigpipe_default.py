"""Kind 4: SIGPIPE set back to its default by the agent."""

# run: bash -c 'python {program} | head -1; echo ${PIPESTATUS[0]}'
import signal

from llm import ask

ask()
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for _ in range(100000):
    print("a line that is long enough to fill the pipe in the end")

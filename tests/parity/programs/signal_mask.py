"""Kind 2: no signal is blocked in the agent, nor in its threads and children."""

import signal
import subprocess
import sys
import threading

from llm import ask

print(signal.pthread_sigmask(signal.SIG_BLOCK, []), ask())
threading.Thread(target=lambda: print(signal.pthread_sigmask(signal.SIG_BLOCK, []))).start()
code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
subprocess.run([sys.executable, "-c", code], check=True)

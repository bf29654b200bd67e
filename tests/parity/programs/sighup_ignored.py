"""Kind 2: what nohup sets is handed on."""

# run: nohup python {program}
import signal

from llm import ask

print(signal.getsignal(signal.SIGHUP), ask())

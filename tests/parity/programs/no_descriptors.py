"""Kind 7: no descriptor is left when the call is recorded: the loss is said, the agent's own call works."""

# unseen: the store cannot be opened
import os
import resource

from llm import ask

print(ask.__name__)
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(error.strerror)

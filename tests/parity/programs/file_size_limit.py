"""Kind 7: a limit on the size of files: no SIGXFSZ of ours kills the agent."""

# unseen: the store cannot be written
# setup: true
import resource

from llm import ask

resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
print(ask("one"), ask("two"), flush=True)

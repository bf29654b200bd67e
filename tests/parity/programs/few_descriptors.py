"""Kind 7: a limit on open files: the agent runs into it where it did before, less what we hold open."""

import resource

from llm import ask, ask_httpx

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
print([ask(str(number)) == ask_httpx(str(number)) for number in range(20)])

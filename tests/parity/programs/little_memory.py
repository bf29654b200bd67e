"""Kind 7: a limited address space: the store makes do with a smaller map."""

import resource

from llm import ask

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
print(ask("one"), ask("two"))

"""Kind 2: logging at INFO: no line and no handler of ours, and no line of a library about a request of ours."""

import logging

logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
from llm import ask, ask_httpx

print(ask(), ask_httpx(), logging.root.handlers)
print([name for name in logging.root.manager.loggerDict if "agentlight" in name])

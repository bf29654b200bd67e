"""Kind 2: logging at DEBUG, where httpcore tells of each connection."""

# fails: the question to an unknown server goes through the agent's transport, and httpcore logs it at DEBUG
import logging

logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
from llm import ask_httpx

print(ask_httpx())

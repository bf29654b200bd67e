"""Kind 2: options of the agent that look like ours stay the agent's."""

# run: python {program} --store mine --strict -h -- --tasks
import sys

from llm import ask

print(sys.argv, ask())

"""Kind 2: standard output is a full device: the same error and status 120."""

# run: bash -c 'python {program} > /dev/full'
from llm import ask

print(ask())

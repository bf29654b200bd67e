"""Kind 2: coverage.py measures the agent: the same lines, the same report."""

# needs: coverage
# run: bash -c 'coverage run {program} && coverage report -m --include={program}; rm .coverage'
import sys

from llm import ask

if len(sys.argv) > 5:
    print("never")
print(ask("covered"))

"""Kind 2: python -m of a package whose __main__ asks."""

# setup: mkdir pkg; mv run_module.py pkg/__main__.py; echo 'print("package", __name__)' > pkg/__init__.py
# run: python -m pkg --flag
import sys

from llm import ask

print(__name__, __package__, __spec__.name, sys.argv[1:], sys.path[0], ask())

"""Kind 2: a zip file with a first line, started as a program."""

# setup: mkdir app; mv zipapp_executable.py app/__main__.py
# setup: python -m zipapp app -o app.pyz -p "/usr/bin/env python"; rm -r app
# run: ./app.pyz word
import sys

from llm import ask

print(sys.argv, sys.path[0], __loader__.__class__, ask())

"""Kind 2: a zip file with a __main__ is run."""

# setup: mkdir app; mv zipapp_run.py app/__main__.py; echo 'NAME = "helper"' > app/helper.py
# setup: python -m zipapp app -o app.pyz; rm -r app
# run: python app.pyz word
import sys

import helper
from llm import ask

print(helper.NAME, helper.__file__, sys.argv, sys.path[0], __spec__, ask())

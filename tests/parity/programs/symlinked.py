"""Kind 2: a script by a symbolic link: sys.path[0] is the folder of the file itself."""

# setup: mkdir real; mv symlinked.py real/; ln -s real/symlinked.py link.py; echo 'X = 1' > real/beside.py
# run: python link.py
import sys

import beside
from llm import ask

print(__file__, sys.path[0], beside.X, ask())

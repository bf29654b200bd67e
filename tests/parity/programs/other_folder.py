"""Kind 2: a script in another folder than the working one."""

# setup: mkdir elsewhere
# run: sh -c 'cd elsewhere && exec python ../other_folder.py'
import os
import sys

from llm import ask

print(os.getcwd(), sys.path[0], __file__, ask())

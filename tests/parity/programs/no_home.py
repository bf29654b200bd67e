"""Kind 2: no HOME, no USER, and a PATH that holds nothing else."""

# run: env -u HOME -u LANG python {program}
import os

from llm import ask

print(os.environ.get("HOME"), os.path.expanduser("~x"), ask())

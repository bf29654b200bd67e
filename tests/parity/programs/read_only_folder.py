"""Kind 7: the working directory cannot be written to; nothing of ours is put there."""

# run: bash -c 'mkdir ro; chmod 555 ro; cd ro; python ../{program}; echo $?; ls -A'
import os

from llm import ask

print(os.getcwd(), ask())

"""Kind 2: the working directory is deleted while the agent runs."""

# run: bash -c 'mkdir gone; cd gone; python ../{program} gone; echo $?'
import os
import sys

os.rmdir(os.getcwd())
sys.path[:] = [entry for entry in sys.path if entry]
from llm import ask, ask_httpx

print(ask(), ask_httpx())
try:
    os.getcwd()
except FileNotFoundError as error:
    print(error)

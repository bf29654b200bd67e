"""Kind 4: os.fork, a call in each child, and os._exit."""

import os

from llm import ask

print(ask("parent"), flush=True)
for number in range(3):
    if os.fork() == 0:
        print(ask(f"child {number}"), flush=True)
        os._exit(number)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
print(ask("parent again"))

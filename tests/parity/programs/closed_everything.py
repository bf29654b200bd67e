"""Kind 2: the three standard streams are closed before the start: no file of ours takes their numbers."""

# run: bash -c 'exec 0<&- 1>&- 2>&-; python {program}; echo $? > status'
import os

from llm import ask

with open("answer", "w") as file:
    file.write(ask() + str([os.path.exists(f"/proc/self/fd/{number}") for number in range(2)]))

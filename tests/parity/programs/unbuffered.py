"""Kind 2: python -u and -X options, -O and -W error; all flags arrive."""

# run: python -u -X utf8 -X frozen_modules=off -O -b -W error {program}
import sys
import warnings

from llm import ask

print(sys.flags, sys._xoptions, sys.warnoptions, __debug__, ask())
try:
    warnings.warn("raised", stacklevel=1)
except UserWarning as error:
    print(error)

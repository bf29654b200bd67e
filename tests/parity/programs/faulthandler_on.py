"""Kind 4: faulthandler writes its traceback and the process dies of SIGABRT."""

import faulthandler
import os
import sys

from llm import ask

faulthandler.enable(sys.stderr, all_threads=False)
print(ask(), flush=True)
os.abort()

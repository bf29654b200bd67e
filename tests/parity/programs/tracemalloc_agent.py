"""Kind 2: garbage collection as the agent set it: thresholds, freeze, callbacks, debug."""

import gc

from llm import ask, ask_httpx

gc.disable()
ask(), ask_httpx()
print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_freeze_count(), gc.get_debug())

"""Kind 2: filters, their order and showwarning are the agent's; a resource warning names the agent's line."""

# run: python -X tracemalloc -W default {program}
import gc
import warnings

from llm import ask

print(warnings.filters)
ask()
print(warnings.filters, warnings.showwarning)
warnings.warn("seen", DeprecationWarning, stacklevel=1)
open(__file__)  # noqa: SIM115
gc.collect()

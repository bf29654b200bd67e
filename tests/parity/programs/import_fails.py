"""Kind 2: a module that is not there, one that raises, and a circular import: the same messages."""

# setup: echo 'import no_such_thing' > breaks.py; echo 'from circular import X' > circular.py
import importlib.util
import traceback

for name in ("httpx.no_such_part", "breaks", "circular", "http.client.x"):
    try:
        __import__(name)
    except ImportError:
        traceback.print_exc()
print(importlib.util.find_spec("httpx"), importlib.util.find_spec("no_such_thing"))
import breaks  # noqa: F401

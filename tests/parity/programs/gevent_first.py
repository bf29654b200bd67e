"""Kind 2: the first line patches everything for gevent; calls of many greenlets overlap; no warning."""

# needs: gevent
# run: python -W error::UserWarning {program}
from gevent import monkey

monkey.patch_all()

import gevent
import requests
from llm import CHAT, ask, body

jobs = [gevent.spawn(ask, f"greenlet {number}") for number in range(8)]
jobs += [gevent.spawn(lambda: requests.post(CHAT, json=body("requests")).json()["choices"][0]["message"])]
gevent.joinall(jobs, raise_error=True)
print([job.value for job in jobs], monkey.is_module_patched("ssl"), monkey.is_module_patched("threading"))

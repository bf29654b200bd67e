"""Kind 4: forks while other threads are in calls."""

import os
import threading

from llm import ask

ask("what is imported by a call is imported before the forks")
threads = [threading.Thread(target=lambda: [ask("thread") for _ in range(5)]) for _ in range(3)]
for thread in threads:
    thread.start()
for number in range(5):
    if os.fork() == 0:
        os._exit(number)
print([os.waitstatus_to_exitcode(os.wait()[1]) >= 0 for _ in range(5)])
for thread in threads:
    thread.join()

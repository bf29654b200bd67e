"""Kind 1: python -I: capture is switched off, and said to be; the agent is the same."""

# run: python -I {program}
# unseen: -I keeps sitecustomize from running
import os
import sys
import urllib.request

print(sys.flags, len(sys.path))
data = b'{"model": "smol", "messages": []}'
print(urllib.request.urlopen(urllib.request.Request(os.environ["LLM_URL"] + "/chat/completions", data)).read())

"""Kind 2: ssl is imported after gevent has patched; a TLS handshake with a server that has no certificate for us."""

# needs: gevent
from gevent import monkey

monkey.patch_all()

import ssl

from llm import ask

context = ssl.create_default_context()
print(ssl.SSLContext.__module__, type(context).__module__, ask())

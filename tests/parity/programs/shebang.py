"""Kind 2: an executable script with a first line of its own."""

# setup: (echo '#!/usr/bin/env -S python -X utf8'; cat shebang.py) > tool; chmod +x tool
# run: ./tool word
import sys

from llm import ask

print(sys.argv, sys.path[0], sys.flags.utf8_mode, __file__, ask())

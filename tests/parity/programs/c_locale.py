"""Kind 11: the C locale without UTF-8 mode: encodings, and what is printed of them."""

# env: LANG=C LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
import locale
import sys

from llm import ask

print(sys.stdout.encoding, sys.getfilesystemencoding(), locale.getpreferredencoding(False), ascii(ask("漢字 \u00e9")))
print("\u6f22")

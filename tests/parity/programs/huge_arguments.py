"""Kind 11: arguments of 100 kB, of emoji, of bytes that are no text, empty, and with braces and dashes."""

# run: bash -c 'python {program} "$(printf "x%.0s" {1..100000})" 漢字 🎉 $'"'"'\xff\xfe'"'"' "" -- --store {x} "a b"'
import sys

from llm import ask

print(len(sys.argv[1]), ascii(sys.argv[2:]), ask())

"""Kind 2: an empty PYTHONPATH is none."""

# env: PYTHONPATH=
# server: plain
import sys

print(sys.path)

"""Kind 2: -P for -c and -m."""

# since: 3.11
# run: bash -c 'python -P -c "import sys, llm; print(sys.path, llm.ask())"; python -P -m safe_path_flag'
import sys

print(sys.path)

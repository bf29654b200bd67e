"""Kind 2: the script is read from standard input."""

# run: python - word
# stdin: b"import sys, llm\nprint(sys.argv, sys.path[0], __name__, llm.ask())\nraise ValueError(sys.stdin.read())"
print("the script comes in by a pipe")

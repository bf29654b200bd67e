"""Kind 2: empty entries of PYTHONPATH mean the working directory, wherever they stand."""

# env: PYTHONPATH=:{aids}::/nowhere:
# setup: mkdir sub; echo 'X = 1' > beside.py
# run: python -c 'import sys, beside, llm; print(sys.path, beside.__file__, llm.ask())'
print("the code is on the command line")

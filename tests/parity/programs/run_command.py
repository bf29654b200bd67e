"""Kind 2: python -c with arguments."""

# run: python -c 'import sys, llm; print(sys.argv, sys.path[0], __name__, __spec__, llm.ask())' a b
print("the code is on the command line")

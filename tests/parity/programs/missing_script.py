"""Kind 2: Python's own message for a script that is not there, and its status 2."""

# run: python no_such_script.py
print("never")

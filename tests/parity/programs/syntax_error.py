"""Kind 2: a script that does not compile."""

# run: python broken.py
# setup: printf 'x = 1\nif x\n    print(x)\n' > broken.py
print("never")

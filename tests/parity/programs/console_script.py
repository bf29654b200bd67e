"""Kind 2: an installed console script, in a folder that holds a decoy json.py: what is imported does not change."""

# setup: echo 'raise SystemExit("the decoy")' > json.py
# run: httpx --help
print("httpx is the program")

"""Kind 2: python -m of modules that we patch when they are imported."""

# server: plain
# run: bash -c 'python -m httpx --help | head -3; python -m requests.help | tail -3; python -m http.client; echo $?'
print("the programs are the libraries")

"""Kind 2: nothing but a print; the process is the same from its first line to its last."""

# server: plain
print("hello")

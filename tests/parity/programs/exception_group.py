"""Kind 2: an ExceptionGroup with notes, uncaught."""

# server: plain
# since: 3.11
error = ExceptionGroup("several", [ValueError(1), TypeError("two")])
error.add_note("a note")
raise error

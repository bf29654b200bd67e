"""Kind 4: sys.exit with a number, a text, None and a big number, each in a child of its own."""

# server: plain
import subprocess
import sys

for value in ("0", "7", "'a text'", "None", "300", "-1", "[1]"):
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.exit({value})"], capture_output=True, text=True)
    print(value, done.returncode, done.stderr)
sys.exit(7)

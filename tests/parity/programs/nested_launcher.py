"""Kind 10: the agent starts agentlight-run itself: each call is recorded once, in the inner run's store."""

# unseen: the inner launcher records
# server: plain
import subprocess
import sys

if len(sys.argv) == 1:
    done = subprocess.run(["agentlight-run", "--store", "../inner", "python", __file__, "inner"], capture_output=True)
    print(done.returncode, done.stdout, done.stderr.startswith(b"agentlight: 1 call"))
else:
    from llm import ask

    print(ask())

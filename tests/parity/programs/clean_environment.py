"""Kind 4: children that are given an environment of their own, or none of ours in it."""

# unseen: the child's environment is made by the agent, and capture is not in it
import os
import subprocess
import sys

print(subprocess.check_output([sys.executable, "-c", "import os; print(sorted(os.environ))"], env={"A": "1"}))
code = f"import sys; sys.path.insert(0, {os.environ['PYTHONPATH'].split(':')[-1]!r}); import llm; print(llm.ask())"
print(subprocess.check_output([sys.executable, "-c", code], env={"LLM_URL": os.environ["LLM_URL"]}))

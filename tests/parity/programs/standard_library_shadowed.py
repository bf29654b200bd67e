"""Kind 2: the agent's folder has modules named like ours and like those that we import late."""

# setup: for name in store trainer servers context report exchange; do echo 'X = 1' > $name.py; done
import context
import report
import store
import trainer
from llm import ask

print(store.X, trainer.X, context.X, report.X, store.__file__, ask())

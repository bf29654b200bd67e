"""Inside the agent's process: sees LLM calls where bytes pass and records them; `bootstrap.start` is the only door."""

"""Kind 10: opentelemetry-instrument around the agent, inside of ours."""

# slow: another launcher
# run: opentelemetry-instrument --traces_exporter none --metrics_exporter none --logs_exporter none python {program}
from llm import ask, ask_httpx

print(ask(), ask_httpx())

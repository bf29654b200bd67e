"""Kind 9: requests with a session, an adapter mounted by the agent, and a hook on replies."""

# server: plain vllm
import requests
from llm import CHAT, body
from requests.adapters import HTTPAdapter

seen = []
session = requests.Session()
session.mount("http://", HTTPAdapter(pool_connections=2, max_retries=1))
session.hooks["response"].append(lambda reply, *args, **kwargs: seen.append((reply.status_code, type(reply).__name__)))
print(session.post(CHAT, json=body("whole"), headers={"X-mine": "1"}).json()["choices"][0]["message"]["content"])
print(list(session.post(CHAT, json=body("streamed", stream=True), stream=True).iter_lines()), seen)

"""Calls sent to the policy instead of the agent's own server: model, address and secrets."""

from __future__ import annotations

import json
import os

import pytest
from conftest import RunAgent
from fake_server import FakeServer

SECRETS = ["sk-marker1", "cookie-marker2", "org-marker3", "user-marker4", "pass-marker5", "query-marker6", "x-marker7"]
HARD_WIRED = """
import asyncio, json, sys
import httpx, openai, requests

ASK = [{"role": "user", "content": "hi"}]
own = sys.argv[1] if len(sys.argv) > 1 else "https://api.openai.com/v1"
secret = dict(api_key="sk-marker1", organization="org-marker3", default_headers={"Cookie": "cookie-marker2"})
client = openai.OpenAI(base_url=own, **secret)
seen = [client.chat.completions.create(model="gpt-4o", messages=ASK).model_dump()]
seen.append([c.model_dump() for c in client.chat.completions.create(model="gpt-4o", messages=ASK, stream=True)])
raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=ASK)
seen.append(str(raw.http_request.url))
async def main():
    async with openai.AsyncOpenAI(base_url=own, **secret) as client:
        seen.append((await client.chat.completions.create(model="gpt-4o", messages=ASK)).model_dump())
asyncio.run(main())
url = own.replace("://", "://user-marker4:pass-marker5@") + "/chat/completions?key=query-marker6"
headers = {"Authorization": "Bearer sk-marker1", "x-api-key": "x-marker7", "Cookie": "cookie-marker2"}
body = {"model": "gpt-4o", "messages": ASK}
seen.append(httpx.post(url, json=body, headers=headers).json())
seen.append(requests.post(url, json=body, headers=headers).json())
print(json.dumps(seen))
"""


@pytest.mark.parametrize("model", ["smol", "smol-1"])
def test_a_hard_wired_agent_reaches_the_policy_without_its_secrets(
    model: str, run_agent: RunAgent, server: FakeServer
) -> None:
    """api.openai.com is never asked; key, cookie, organisation, query and user-info reach neither server nor store."""
    server.models["smol-1"] = {"root": "/adapters/smol-1", "parent": "smol"}
    run = run_agent(HARD_WIRED, env={"AGENTLIGHT_POLICY": server.url, "AGENTLIGHT_POLICY_MODEL": model})
    assert run.result[2] == "https://api.openai.com/v1/chat/completions"
    spans = run.spans
    assert len(spans) == len(server.calls) == 6
    for span, call in zip(spans, server.calls, strict=True):
        assert call.json["model"] == span.model == model
        assert call.headers["host"] == span.server == f"127.0.0.1:{server.server_port}"
        assert span.trainable, span.reason
        assert (span.model_root, span.adapter_root) == (
            "some/base-model", None if model == "smol" else "/adapters/smol-1",
        )  # fmt: skip
        assert span.policy_version == (None if model == "smol" else model)
    everything = repr([(request.path, request.headers, request.body) for request in server.requests])
    everything += "".join((run.store / name).read_bytes().decode("latin1") for name in os.listdir(run.store))
    everything += json.dumps(run.report)
    assert [secret for secret in SECRETS if secret in everything] == []


def test_secrets_stay_out_of_the_store_when_nothing_is_rerouted(run_agent: RunAgent, server: FakeServer) -> None:
    """The agent's own server gets the agent's headers; the store gets none of them, on errors neither."""
    server.failures = [401]
    source = HARD_WIRED.replace("seen = [client", "try: client.chat.completions.create(model='gpt-4o', messages=ASK)\n"
                                "except openai.AuthenticationError: pass\nseen = [client")  # fmt: skip
    run = run_agent(source, server.url)
    assert server.calls[1].headers["authorization"] == "Bearer sk-marker1"
    assert len(run.spans) == len(server.calls) == 7
    stored = "".join((run.store / name).read_bytes().decode("latin1") for name in os.listdir(run.store))
    assert [secret for secret in SECRETS if secret in stored + json.dumps(run.report)] == []


@pytest.mark.parametrize("base", ["/gateway/v1", "/gateway/v1/", ""])
def test_the_policys_url_may_have_a_path(base: str, run_agent: RunAgent, server: FakeServer) -> None:
    """The call goes to the policy's path; without one, to /v1."""
    agent = """
    import httpx
    body = {"model": "x", "messages": []}
    print(httpx.post("https://api.openai.com/deployments/x/chat/completions?api-version=2", json=body).status_code)
    """
    policy = server.url.removesuffix("/v1") + base
    run = run_agent(agent, env={"AGENTLIGHT_POLICY": policy})
    assert run.result == 200
    (call,) = server.calls
    assert call.path == (base.rstrip("/") or "/v1") + "/chat/completions"
    assert call.json["model"] == "x"
    assert run.spans[0].trainable


def test_servers_that_the_launcher_described_are_not_asked(run_agent: RunAgent, server: FakeServer) -> None:
    """AGENTLIGHT_SERVERS saves the question, and its defaults and log-prob mode become effective settings."""
    models = {"smol": {"root": "/base", "adapter": None, "defaults": {"temperature": 0.6, "top_k": 20}}}
    known = {f"http://127.0.0.1:{server.server_port}": {"vllm": True, "logprobs_mode": "processed", "models": models}}
    agent = """
    import httpx, sys
    body = {"model": "smol", "messages": [], "temperature": 0.9, "max_completion_tokens": 5, "seed": 7}
    print(httpx.post(sys.argv[1] + "/chat/completions", json=body).status_code)
    """
    (span,) = run_agent(agent, server.url, env={"AGENTLIGHT_SERVERS": json.dumps(known)}).spans
    assert [request.method for request in server.requests] == ["POST"]
    assert span.sampling == {
        "temperature": 0.9, "top_p": 1.0, "top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "max_tokens": 5, "seed": 7, "logprobs_mode": "processed",
    }  # fmt: skip
    assert (span.finish_reason, span.model_root, span.trainable) == ("length", "/base", True)


def test_settings_are_effective_only_where_they_are_known(run_agent: RunAgent, server: FakeServer, tmp_path) -> None:
    """With the model's folder at hand its generation_config.json counts; without, what nobody set is absent."""
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.3, "top_p": 0.8, "eos_token_id": 2}')
    server.models["local"] = {"root": str(tmp_path), "parent": None}
    agent = """
    import httpx, sys
    for model in ("smol", "local"):
        body = {"model": model, "messages": [], "top_p": 0.5, "n": 1}
        httpx.post(sys.argv[1] + "/chat/completions", json=body)
    """
    remote, local = run_agent(agent, server.url).spans
    assert remote.sampling == {"top_p": 0.5, "n": 1}
    assert (local.sampling["temperature"], local.sampling["top_p"], local.sampling["top_k"]) == (0.3, 0.5, 0)


def test_calls_that_start_together_all_get_ids(run_agent: RunAgent, server: FakeServer) -> None:
    """The first calls of an agent, 8 at once in threads and 8 in tasks: each is trainable, and kept once."""
    agent = """
    import asyncio, httpx, sys
    from concurrent.futures import ThreadPoolExecutor
    url, body = sys.argv[1] + "/chat/completions", {"model": "smol", "messages": [{"role": "user", "content": "x"}]}
    if sys.argv[2] == "threads":
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: httpx.post(url, json=body), range(8)))
    else:
        async def main():
            async with httpx.AsyncClient() as client:
                await asyncio.gather(*(client.post(url, json=body) for _ in range(8)))
        asyncio.run(main())
    """
    for number, way in enumerate(("threads", "tasks"), 1):
        run = run_agent(agent, server.url, way)
        assert len(run.spans) == 8 * number
        assert [span.reason for span in run.spans] == [None] * 8 * number
        assert run.events("lost") == []


def test_a_virtual_host_is_kept(run_agent: RunAgent, server: FakeServer) -> None:
    """The agent's own Host header goes out with the upgraded request as it does without capture."""
    agent = """
    import httpx, requests, sys
    for library in (httpx, requests):
        body = {"model": "smol", "messages": []}
        library.post(sys.argv[1] + "/chat/completions", json=body, headers={"Host": "models.internal"})
    """
    run = run_agent(agent, server.url)
    assert {request.headers["host"] for request in server.requests} == {"models.internal"}
    assert [span.trainable for span in run.spans] == [True, True]

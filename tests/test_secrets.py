"""Keys of an agent reach its own server and nothing that agentlight writes: no file of the store, no line of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_model import to_json
from fake_server import FakeServer, _Handler

from agentlight_store import Store
from agentlight_store.otlp import spans_of

BIN = Path(sys.executable).parent
# No shape of any known service: what keeps these out is where they stand. Each begins with MARK and names its place.
PLACES = (
    "authorization", "xapikey", "apikey", "googapikey", "proxyauth", "cookie", "setcookie", "querykey", "queryapikey",
    "querytoken", "user", "password", "proxyuser", "proxypassword", "envopenai", "envorg", "envanthropic", "envazure",
    "option", "optionequals", "positional", "policyuser", "policypassword",
)  # fmt: skip
MARK = {place: f"MARK{place}x7Qz" for place in PLACES}
ENV = {
    "OPENAI_API_KEY": MARK["envopenai"], "OPENAI_ORG_ID": MARK["envorg"], "ANTHROPIC_API_KEY": MARK["envanthropic"],
    "AZURE_OPENAI_API_KEY": MARK["envazure"], "SERVICE_TOKEN": MARK["positional"],
}  # fmt: skip
ARGUMENTS = ["--api-key", MARK["option"], f"--token={MARK['optionequals']}", MARK["positional"]]
AGENT = """
import asyncio, json, os, sys, urllib.error, urllib.request
import aiohttp, anthropic, httpx, openai, requests

MARK = json.loads(%(marks)r)
own, proxy = sys.argv[1:3]
body = {"model": "smol", "messages": [{"role": "user", "content": "hi"}]}
headers = {
    "Authorization": "Bearer " + MARK["authorization"], "x-api-key": MARK["xapikey"], "api-key": MARK["apikey"],
    "x-goog-api-key": MARK["googapikey"], "Proxy-Authorization": "Basic " + MARK["proxyauth"],
    "Cookie": "session=" + MARK["cookie"],
}
query = f"?key={MARK['querykey']}&api_key={MARK['queryapikey']}&access_token={MARK['querytoken']}"
path = "/chat/completions" + query
inside = own.replace("://", f"://{MARK['user']}:{MARK['password']}@")
through = proxy.replace("://", f"://{MARK['proxyuser']}:{MARK['proxypassword']}@")

def tolerant(action, *expected):
    try:
        return action()
    except expected as error:
        return error

def by_urllib(url, body, *handlers):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers | {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(*handlers)
    return tolerant(lambda: opener.open(request, timeout=20).read(), urllib.error.HTTPError)

async def by_aiohttp(url, body, **more):
    # aiohttp refuses the header beside a user in the URL.
    own = {name: value for name, value in headers.items() if name != "Authorization" or "@" not in url}
    async with aiohttp.ClientSession(headers=own) as session:
        async with session.post(url, json=body, **more) as reply:
            return await reply.read()

for model in ("smol", "smol+refuse=1", "smol+status=503", "smol+raw=html", "smol+redirect=1"):
    asked = {**body, "model": model}
    whole, streamed = asked, {**asked, "stream": True}
    for one in (whole, streamed):
        httpx.post(inside + path, json=one, headers=headers, follow_redirects=True)
        requests.post(inside + path, json=one, headers=headers)
        by_urllib(own + path, one)
        asyncio.run(by_aiohttp(inside + path, one))

# Through a proxy with a password of its own.
away = "http://llm.test/v1" + path
httpx.Client(proxy=through).post(away, json=body, headers=headers)
requests.post(away, json=body, headers=headers, proxies={"http": through})
by_urllib(away, body, urllib.request.ProxyHandler({"http": through}))
asyncio.run(by_aiohttp(away, body, proxy=through))

# Proxies that refuse and hosts that do not answer: their errors name URLs.
dead = f"http://{MARK['user']}:{MARK['password']}@127.0.0.1:9/v1"
tolerant(lambda: httpx.post(dead + path, json=body, headers=headers), httpx.HTTPError)
tolerant(lambda: requests.post(dead + path, json=body, headers=headers), requests.RequestException)
tolerant(lambda: by_urllib("http://127.0.0.1:9/v1" + path, body), OSError)
tolerant(lambda: asyncio.run(by_aiohttp(dead + path, body)), aiohttp.ClientError)

messages = body["messages"]
for model in ("smol", "smol+refuse=1"):
    plain = openai.OpenAI(base_url=own, max_retries=0)
    azure = openai.AzureOpenAI(azure_endpoint=own.removesuffix("/v1"), api_version="2026-01-01", max_retries=0)
    claude = anthropic.Anthropic(base_url=own.removesuffix("/v1"), max_retries=0)
    for client in (plain, azure):
        tolerant(lambda: client.chat.completions.create(model=model, messages=messages), openai.APIStatusError)
        tolerant(lambda: client.responses.create(model=model, input="hi"), openai.APIStatusError)
    tolerant(lambda: claude.messages.create(model=model, max_tokens=9, messages=messages), anthropic.APIStatusError)
gemini = own.removesuffix("/v1") + "/v1beta/models/smol:generateContent" + query
httpx.post(gemini, json={"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, headers=headers)
"""


class _Refusing(_Handler):
    """Sets a cookie, and refuses in the words of a server that quotes the key."""

    def end_headers(self) -> None:
        self.send_header("Set-Cookie", f"session={MARK['setcookie']}; Path=/")
        super().end_headers()

    def do_POST(self) -> None:
        self._taken = super()._received()
        if b"refuse=1" not in self._taken.body:
            return super().do_POST()
        quoted = ", ".join(f"{name}: {value}" for name, value in self.headers.items())
        error = {"message": f"Incorrect API key provided: {quoted} {self.path}", "code": "invalid_api_key"}
        self._send(self._taken, 401, to_json({"error": error}))

    def _received(self) -> Any:
        return self.__dict__.pop("_taken", None) or super()._received()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    fake.RequestHandlerClass = _Refusing
    yield fake
    fake.close()


def launch(folder: Path, options: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "agent.py"
    script.write_text(textwrap.dedent(AGENT) % {"marks": json.dumps(MARK)})
    foreign = ("AGENTLIGHT_", "OPENAI_", "PYTHONPATH", "HTTP_PROXY", "http_proxy")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | ENV
    command = [BIN / "agentlight-run", *options, sys.executable, script, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


def leaks(text: str) -> set[str]:
    """The places whose key stands in the text."""
    return {place for place, mark in MARK.items() if mark in text}


def all_that_is_written(folder: Path) -> str:
    """The bytes of every file, and what each tool reads out of the store."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "agent.py"]
    assert not [path for path in files if ".report" in path.name]
    found = [path.read_bytes().decode("latin1") for path in files]
    store = Store.open(folder / "store")
    found += [repr(rollout) for rollout in store.rollouts()] + [repr(store.headers())]
    found += [span.to_json() for rollout in store.rollouts() for span in spans_of(rollout)]
    for command in (["ls", "--json"], ["stats", "--json"], *(["show", one, "--json"] for one in store.rollout_ids())):
        shown = [BIN / "agentlight-store", command[0], folder / "store", *command[1:]]
        found.append(subprocess.run(shown, capture_output=True, text=True, check=True, timeout=60).stdout)
    return "\n".join(found)


def everything_sent(server: FakeServer) -> str:
    return repr([(one.path, one.headers) for one in server.requests])


def test_no_key_of_an_agent_is_written(tmp_path: Path, server: FakeServer) -> None:
    """57 calls over four libraries and two SDKs, whole and streamed, refused, redirected, through a proxy, in vain."""
    run = launch(tmp_path, [], server.url, f"http://127.0.0.1:{server.server_port}", *ARGUMENTS)
    assert run.returncode == 0, run.stderr[-3000:]
    sent = leaks(everything_sent(server))
    assert {"authorization", "xapikey", "cookie", "querykey", "envopenai", "envorg", "envazure"} <= sent
    (rollout,) = Store.open(tmp_path / "store").rollouts()
    assert len(rollout.spans) == 57  # of 59: urllib follows neither of its two redirects
    assert {span.error for span in rollout.spans if span.http_status == 401} == {"HTTP 401"}
    assert leaks(all_that_is_written(tmp_path)) == set()
    assert leaks(run.stderr + run.stdout) == set()


def test_a_policy_with_a_password_is_written_nowhere(tmp_path: Path, server: FakeServer) -> None:
    """The policy gets its own user and password and none of the agent's keys; the store and stderr get neither."""
    policy = FakeServer()
    url = policy.url.replace("://", f"://{MARK['policyuser']}:{MARK['policypassword']}@")
    own = (server.url, f"http://127.0.0.1:{server.server_port}")
    run = launch(tmp_path, ["--policy", url], *own, *ARGUMENTS)
    policy.close()
    assert run.returncode == 0, run.stderr[-3000:]
    basic = "Basic " + b64encode(f"{MARK['policyuser']}:{MARK['policypassword']}".encode()).decode()
    assert len(policy.calls) > 40 and {call.headers["authorization"] for call in policy.calls} == {basic}
    assert leaks(everything_sent(policy)) == set()
    # What the agent sends through its proxy goes there still, with what is for the proxy.
    assert leaks(everything_sent(server)) >= {"googapikey"}
    assert leaks(run.stderr + run.stdout) == set()
    assert leaks(all_that_is_written(tmp_path)) == set()


def test_a_policy_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    user = f"{MARK['policyuser']}:{MARK['policypassword']}"
    for url in (f"http://{user}@127.0.0.1:9", f"http://{user}@", f"{user}@host", f"http://127.0.0.1:9/?key={user}"):
        run = launch(tmp_path, ["--policy", url], "http://127.0.0.1:9/v1", "http://127.0.0.1:9")
        assert run.returncode == 2 and leaks(run.stderr + run.stdout) == set(), run.stderr


def test_rows_of_tasks_are_content_and_options_are_not(tmp_path: Path, server: FakeServer) -> None:
    """Fan-out: the command of every rollout is recorded without its keys, the log has what the agent printed only."""
    (tmp_path / "tasks.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    options = ["--tasks", "tasks.jsonl", "--jobs", "2"]
    run = launch(tmp_path, options, server.url, f"http://127.0.0.1:{server.server_port}", "{id}", *ARGUMENTS)
    assert run.returncode == 0, run.stderr
    assert leaks(all_that_is_written(tmp_path) + run.stderr) == set()
    commands: list[Any] = [rollout.command for rollout in Store.open(tmp_path / "store").rollouts()]
    assert [command[-5:] for command in commands] == [
        [task, "--api-key", "[redacted]", "--token=[redacted]", "[redacted]"] for task in ("a", "b")
    ]


def test_the_last_words_of_a_failed_rollout_are_said_without_a_key(tmp_path: Path) -> None:
    """Its log has what the agent itself printed; the line on the terminal has no key of a known shape."""
    (tmp_path / "tasks.jsonl").write_text('{"id": "a"}\n')
    words = "Error code: 401 - Incorrect API key provided: sk-proj-1234567890abcdef. Bearer abcdefghijkl"
    command = [BIN / "agentlight-run", "--tasks", "tasks.jsonl", sys.executable, "-c", f"exit({words!r})"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "Incorrect API key provided: [redacted]" in run.stderr
    assert "1234567890abcdef" not in run.stderr and "abcdefghijkl" not in run.stderr

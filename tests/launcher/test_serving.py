"""A policy server that runs already, and one that we start: here a fake one, started as vLLM is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlight_run import serving
from agentlight_run.policy import PolicyError, get, probe
from agentlight_run.serverlog import causes
from agentlight_run.serving import ServingError, serve

TESTS = Path(__file__).parents[1]
FAKE = """
import json, os, sys, threading, time
from fake_server import FakeServer
options = dict(zip(sys.argv[1::1], sys.argv[2::1]))
print(json.dumps(sys.argv), flush=True)
time.sleep(0.3)
server = FakeServer(int(options["--port"]))
root = {"root": options["--model"], "parent": None}
server.models = {options["--served-model-name"]: root}
if "--lora-modules" in options:
    name, _, path = options["--lora-modules"].partition("=")
    server.models[name] = {"root": path, "parent": options["--served-model-name"]}
threading.Event().wait()
"""
DYING = """
import sys
print("(APIServer pid=1) INFO 12-01 02:56:50 [launcher.py:1] hello")
print("(EngineCore pid=2) ERROR 12-01 02:56:50 [core.py:2] ValueError: no room for the cache")
print("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}")
sys.exit(1)
"""


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `source` the server that `serve` starts; returns a model's folder."""

    def install(source: str) -> Path:
        (tmp_path / "fake_vllm.py").write_text(source)
        monkeypatch.setattr(serving, "MODULE", "fake_vllm")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(TESTS)]))
        monkeypatch.chdir(tmp_path)
        model = tmp_path / "models" / "tiny"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        (model / "generation_config.json").write_text('{"temperature": 0.1}')
        return model

    return install


def test_serve_starts_waits_and_stops(vllm: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = vllm(FAKE)
    with serve(os.path.relpath(model), log=tmp_path / "logs" / "serve.log") as policy:
        assert policy.model == "tiny" and policy.url.startswith("http://127.0.0.1:")
        assert get(policy.url + "/models")
        (info,) = policy.servers.values()
        assert info["logprobs_mode"] == "processed"
        assert info["models"]["tiny"] == {"root": str(model), "adapter": None, "defaults": {}}
    with pytest.raises(OSError):
        get(policy.url + "/models")
    assert "agentlight: vLLM serves tiny" in capsys.readouterr().err
    arguments = json.loads((tmp_path / "logs" / "serve.log").read_text().splitlines()[0])
    assert {"--enable-lora", "--enable-auto-tool-choice", "processed_logprobs", "--max-model-len=-1"} < set(arguments)


def test_serve_with_an_adapter_asks_for_the_adapter(vllm: Any, tmp_path: Path) -> None:
    model = vllm(FAKE)
    adapter = tmp_path / "out" / "step-3"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text('{"r": 40}')
    with serve(str(model), str(adapter)) as policy:
        assert policy.model == "step-3"
        (info,) = policy.servers.values()
        assert info["models"]["step-3"]["adapter"] == str(adapter)
    arguments = json.loads((tmp_path / "serve.log").read_text().splitlines()[0])
    assert arguments[arguments.index("--max-lora-rank") + 1] == "64"


def test_a_server_that_dies_is_an_error_with_the_cause(vllm: Any, tmp_path: Path) -> None:
    with pytest.raises(ServingError) as raised, serve(str(vllm(DYING))):
        pass
    assert str(raised.value) == (
        "vLLM ended with status 1 before it served tiny:\n  ValueError: no room for the cache\n  serve.log"
    )


def test_the_server_is_stopped_when_the_block_fails(vllm: Any) -> None:
    with pytest.raises(ZeroDivisionError), serve(str(vllm(FAKE))) as policy:
        raise ZeroDivisionError
    with pytest.raises(OSError):
        get(policy.url + "/models")


def test_what_cannot_be_served_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ServingError, match=r"pip install 'agentlight\[serve\]'"), serve("tiny"):
        pass
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    for model, problem in {"./nosuch": "no model at ./nosuch", str(tmp_path): "has no config.json"}.items():
        with pytest.raises(ServingError, match=problem), serve(model):
            pass
    with pytest.raises(ServingError, match="is no LoRA adapter"), serve("org/tiny", str(tmp_path)):
        pass


def test_the_last_lines_are_the_cause_when_no_line_names_an_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n\ntwo\nthree\nfour\n")
    assert causes(log) == ["two", "three", "four"]
    assert causes(tmp_path / "nosuch") == []


def test_probe_finds_the_one_base_model_and_the_path(server: Any) -> None:
    server.models["v2"] = {"root": "some/adapter", "parent": "smol"}
    for url in (server.url, server.url + "/", server.url.removesuffix("/v1"), server.url.removesuffix("v1")):
        policy = probe(url)
        assert (policy.url, policy.model) == (server.url, "smol")
    assert probe(server.url, "v2").model == "v2"
    assert list(policy.servers) == [server.url.removesuffix("/v1")]


def test_probe_names_what_is_wrong(server: Any) -> None:
    server.models["other"] = {"root": "x", "parent": None}
    with pytest.raises(PolicyError, match="serves other, smol: choose one with --policy-model"):
        probe(server.url)
    with pytest.raises(PolicyError, match="does not serve 'nope'; it serves other, smol"):
        probe(server.url, "nope")
    server.models.clear()
    with pytest.raises(PolicyError, match="lists no model"):
        probe(server.url)
    with pytest.raises(PolicyError, match="is no URL"):
        probe("localhost:8000")
    server.close()
    with pytest.raises(PolicyError, match=r"no answer from .*refused"):
        probe(server.url)


def test_a_policy_that_does_not_answer_stops_the_agent_from_starting(launch: Any, server: Any) -> None:
    url = server.url
    server.close()
    run = launch("--policy", url, sys.executable, "-c", "print('started')")
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr.startswith(f"agentlight-run: no answer from {url}/models")


def test_a_server_without_token_ids_is_said(launch: Any, server: Any) -> None:
    server.owned_by = "somebody"
    run = launch("--policy", server.url, sys.executable, "-c", "pass")
    assert f"agentlight: {server.url} is no vLLM server" in run.stderr


def test_a_launcher_that_is_ended_ends_its_server(vllm: Any, tmp_path: Path) -> None:
    model = vllm(FAKE)
    code = (
        "from agentlight_run import serving, cli; serving.MODULE = 'fake_vllm'; "
        "import importlib.util; importlib.util.find_spec = str; import sys; sys.exit(cli.main())"
    )
    agent = "import time; print('ready', flush=True); time.sleep(30)"
    command = [sys.executable, "-c", code, "--serve", str(model), sys.executable, "-c", agent]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 128 + 15
    arguments = json.loads((tmp_path / "store" / "serve.log").read_text().splitlines()[0])
    with pytest.raises(OSError):
        get(f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}/health")

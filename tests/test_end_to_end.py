"""The whole line on the real thing: SmolLM2-135M on vLLM's CPU build, a real SDK, the real trainer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentlight_run.policy import probe
from agentlight_run.serving import serve

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
AGENT = '''
"""Knows nothing of agentlight: a public base URL, a public model, a key, one question and a follow-up."""
import json
import random
import sys

from openai import OpenAI

client = OpenAI(base_url="https://api.openai.com/v1", api_key="sk-public-key-0123456789")
number = random.randrange(1000)
messages = [
    {"role": "system", "content": "You answer in one short sentence."},
    {"role": "user", "content": sys.argv[1]},
]
said = []


def ask(stream):
    reply = client.chat.completions.create(
        model="gpt-4o-mini", messages=messages, temperature=0.9, max_tokens=24, stream=stream
    )
    if stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in reply)
    else:
        text = reply.choices[0].message.content
    said.append(text)
    messages.append({"role": "assistant", "content": text})
    messages.append({"role": "user", "content": "Say it in other words."})


def brevity(text):
    return 1.0 / (1 + len(text))


ask(stream=False)
ask(stream=True)
brevity(said[-1])
print(json.dumps(said))
'''


def run(*words: object, cwd: Path, **variables: str) -> str:
    command = [str(word) for word in words]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"} | variables
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def line(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Collect with the base, train and publish, collect with the adapter: the stores and the server."""
    folder = tmp_path_factory.mktemp("line")
    (folder / "agent.py").write_text(AGENT)
    tasks = [{"id": "sky", "question": "Why is the sky blue?"}, {"id": "tea", "question": "How is tea made?"}]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    collect = [BIN / "agentlight-run", "--tasks", "tasks.jsonl", "--samples", 4, "--reward", "agent:brevity"]
    agent = [sys.executable, "agent.py", "{question}"]
    with serve(str(model), log=folder / "serve.log") as policy:
        to_policy = ["--policy", policy.url, "--policy-model"]
        run(*collect, "--store", "base", *to_policy, policy.model, *agent, cwd=folder)
        train = [BIN / "agentlight-train", "base", "--output", "out", "--epochs", 2, "--rollouts-per-step", 4]
        train += ["--learning-rate", 5e-4]  # so that the change is larger than that of rounding
        trained = run(*train, "--publish", policy.url, cwd=folder)
        (adapter,) = (folder / "out" / "published").iterdir()
        run(*collect, "--store", "adapter", *to_policy, adapter.name, *agent, cwd=folder)
        yield SimpleNamespace(folder=folder, adapter=adapter.name, trained=trained, url=policy.url, model=policy.model)


def test_ids_decode_to_what_the_agent_saw(line, model):
    """Whole and streamed: the stored completion ids, decoded with the model's tokenizer, are the agent's text."""
    from transformers import AutoTokenizer

    command = [BIN / "agentlight-run", "--store", "one", "--policy", line.url, "--policy-model", line.model]
    said = json.loads(run(*command, sys.executable, "agent.py", "What is a river?", cwd=line.folder))
    (rollout,) = lines(run(BIN / "agentlight-store", "ls", "one", "--json", cwd=line.folder))
    calls = lines(run(BIN / "agentlight-store", "show", "one", rollout["rollout_id"], "--json", cwd=line.folder))
    tokenizer = AutoTokenizer.from_pretrained(model)
    assert [call["text"] for call in calls] == said
    assert [tokenizer.decode(call["completion_ids"], skip_special_tokens=True) for call in calls] == said
    assert all(call["trainable"] and call["model_root"] == str(model) for call in calls)
    assert b"sk-public-key" not in (line.folder / "one" / "data.mdb").read_bytes()


def test_training_changes_what_is_served(line):
    """The run ends with a published adapter, and later calls carry its name as their policy version."""
    assert "adapter" in line.trained.splitlines()[-1]
    for listed in lines(run(BIN / "agentlight-store", "ls", "adapter", "--json", cwd=line.folder)):
        shown = run(BIN / "agentlight-store", "show", "adapter", listed["rollout_id"], "--json", cwd=line.folder)
        assert {call["policy_version"] for call in lines(shown)} == {line.adapter}


@pytest.mark.parametrize("store", ["base", "adapter"])
def test_captured_and_recomputed_logprobs_agree_in_bfloat16(line, store):
    """For the base and for an adapter: mean |difference| < 0.05 over all sampled tokens."""
    assert mean_difference(line.folder / store, "bfloat16") < 0.05


def test_captured_and_recomputed_logprobs_agree_in_float32(model, tmp_path):
    """vLLM and the trainer both in float32: mean |difference| < 1e-3."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    module = "vllm.entrypoints.openai.api_server"
    options = ["--dtype", "float32", "--max-model-len", "1024", "--logprobs-mode", "processed_logprobs"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with open(tmp_path / "serve.log", "wb") as log:
        command = [sys.executable, "-m", module, "--model", str(model), "--port", str(port), *options]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(240):
                try:
                    probe(url)
                    break
                except Exception:
                    assert server.poll() is None, (tmp_path / "serve.log").read_text()[-2000:]
                    time.sleep(1)
            (tmp_path / "agent.py").write_text(AGENT)
            collect = [BIN / "agentlight-run", "--store", "store", "--policy", url]
            run(*collect, sys.executable, "agent.py", "Why is the sea salty?", cwd=tmp_path)
        finally:
            server.terminate()
            server.wait(30)
    assert mean_difference(tmp_path / "store", "float32") < 1e-3


def mean_difference(store: Path, dtype: str) -> float:
    """Mean |captured - recomputed by the trainer| over all sampled tokens, with the weights that the calls recorded."""
    import torch

    from agentlight_store import Store
    from agentlight_trainer import policy
    from agentlight_trainer.config import TrainConfig
    from agentlight_trainer.packing import pack_tree
    from agentlight_trainer.trajectory import build

    made = [build(rollout) for rollout in Store.open(store).rollouts()]
    (origin,) = {origin for one in made for origin in one.origins}
    assert origin.model_root is not None and not any(one.dropped or one.unknown for one in made)
    config = TrainConfig(stores=(str(store),), dtype=dtype)
    learner = policy.load(config, origin.model_root, origin.adapter_root)
    packs = pack_tree([sample for one in made for sample in one.samples], config.max_tokens)
    differences = [(learner.score(pack)[0] - pack.behaviour_logprobs_T).abs() for pack in packs]
    return torch.cat(differences).mean().item()


def test_rounds_collect_train_publish_and_measure(line):
    """One round, then --resume to two: each collects with the adapter of the one before, which vLLM serves by name."""
    collect = "agentlight-run --tasks tasks.jsonl --samples 4 --reward agent:brevity"
    agent = f"{sys.executable} agent.py '{{question}}'"
    measure = "agentlight-run --tasks tasks.jsonl --samples 1 --reward agent:brevity"
    command = [BIN / "agentlight-train", "--collect", f"{collect} {agent}", "--evaluate", f"{measure} {agent}"]
    command += ["--publish", line.url, "--output", "rounds", "--epochs", 1, "--rollouts-per-step", 4]
    run(*command, "--rounds", 1, cwd=line.folder)
    said = run(*command, "--rounds", 2, "--resume", cwd=line.folder)
    rounds = lines((line.folder / "rounds" / "rounds.jsonl").read_text())
    assert [one["number"] for one in rounds] == [0, 1, 2]
    assert all(set(one["by_task"]) == {"sky", "tea"} for one in rounds)
    assert rounds[1]["served"] != rounds[2]["served"]
    for number, served in ((1, None), (2, rounds[1]["served"])):
        store = f"rounds/round-{number}/store"
        for listed in lines(run(BIN / "agentlight-store", "ls", store, "--json", cwd=line.folder)):
            shown = run(BIN / "agentlight-store", "show", store, listed["rollout_id"], "--json", cwd=line.folder)
            assert {call["policy_version"] for call in lines(shown)} == {served}
    assert "round 2" in said and said.splitlines()[-1].startswith("agentlight-train: 2 rounds, the last one: ")
    final, last = (
        line.folder / "rounds" / part / "adapter_model.safetensors" for part in ("adapter", "round-2/adapter")
    )
    assert final.read_bytes() == last.read_bytes()
    assert "Tasks, before and after" in (line.folder / "rounds" / "report.html").read_text()

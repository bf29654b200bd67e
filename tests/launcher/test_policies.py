"""Which calls go where, which rollouts stay, and settings from a file."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from fake_server import FakeServer

from agentlight_run.cli import parse
from agentlight_store import Store
from agentlight_store.stats import stats

AGENT = """
import agentlight, httpx, sys
def ask(text):
    body = {"model": "gpt", "messages": [{"role": "user", "content": text}]}
    httpx.post(sys.argv[1] + "/chat/completions", json=body, headers={"Authorization": "Bearer SECRET"})
def planner():
    ask("plan")
def writer():
    ask("write")
planner()
writer()
ask("plain")
agentlight.emit_reward(float(sys.argv[2]) if len(sys.argv) > 2 else 0.5)
"""


@pytest.fixture
def own() -> Any:
    """The agent's own server: not vLLM."""
    fake = FakeServer(owned_by="openai")
    fake.models = {"gpt": {"root": "x", "parent": None}}
    yield fake
    fake.close()


def told(server: FakeServer) -> list[str]:
    return [call.json["messages"][0]["content"] for call in server.calls]


def test_each_role_has_its_policy(launch: Any, script: Any, server: FakeServer, own: FakeServer) -> None:
    """One role to a policy, all others to the agent's own server; no key to the policy."""
    path = script(AGENT)
    roles = ["--role", f"{path.stem}:planner", "--role", f"{path.stem}:writer=sql_writer"]
    run = launch("--policy", f"sql_writer={server.url}", *roles, sys.executable, path, own.url)
    assert "3 calls" in run.stderr
    assert told(server) == ["write"] and told(own) == ["plan", "plain"]
    assert server.calls[0].json["model"] == "smol"
    assert "SECRET" not in str([call.headers for call in server.requests])


def test_a_component_restricts_the_policy(launch: Any, script: Any, server: FakeServer, own: FakeServer) -> None:
    path = script(AGENT)
    only = ["--policy", server.url + "/", "--component", "planner", "--role", f"{path.stem}:planner"]
    launch(*only, sys.executable, path, own.url)
    assert told(server) == ["plan"] and told(own) == ["write", "plain"]


def test_a_canary_sends_whole_rollouts_and_compares(
    launch: Any, script: Any, server: FakeServer, own: FakeServer, tmp_path: Any
) -> None:
    """All calls of a rollout go the same way; 24 rollouts at one half are all on one arm once in 8 million."""
    (tmp_path / "tasks.jsonl").write_text('{"id": "t"}\n')
    many = ["--tasks", tmp_path / "tasks.jsonl", "--samples", "24", "--jobs", "8"]
    launch("--policy", server.url, "--canary", "0.5", *many, sys.executable, script(AGENT), own.url, "0.5")
    with Store.open(tmp_path / "store") as store:
        arms = [rollout.arm for rollout in store.rollouts()]
        canary = stats(store)["canary"]
    assert len(server.calls) == 3 * arms.count("policy") > 0
    assert len(own.calls) == 3 * arms.count("own") > 0 and len(arms) == 24
    assert canary["policy_improvement_ratio"] == 1.0 and canary["scored_rollouts_policy"] == arms.count("policy")


def test_rollouts_are_sampled_as_a_whole_and_good_ones_stay(
    launch: Any, script: Any, server: FakeServer, tmp_path: Any
) -> None:
    """At a rate of 0 nothing is kept but what reaches the threshold; what was dropped is counted."""
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "r": 0.2}\n{"id": "b", "r": 0.9}\n')
    many = ["--tasks", tmp_path / "tasks.jsonl", "--jobs", "2"]
    rate = ["--trace-sampling-rate", "0", "--reward-threshold", "0.7"]
    run = launch(*rate, *many, sys.executable, script(AGENT), server.url, "{r}")
    assert "3 calls" in run.stderr and "1 rollout dropped (not sampled)" in run.stderr
    with Store.open(tmp_path / "store") as store:
        assert [(rollout.task_id, rollout.calls) for rollout in store.rollouts()] == [("b", 3)]
        assert stats(store)["rollouts_dropped_because"] == {"not sampled": 1}
    run = launch("--trace-sampling-rate", "0", sys.executable, script(AGENT), server.url)
    assert "0 calls" in run.stderr and "1 rollout dropped (not sampled)" in run.stderr and "warning" not in run.stderr


def test_a_burst_costs_whole_rollouts(launch: Any, script: Any, server: FakeServer, tmp_path: Any) -> None:
    """Three calls where two a minute are allowed: the rollout is left out, all of it, and counted."""
    run = launch("--max-span-per-minute", "2", sys.executable, script(AGENT), server.url)
    assert "0 calls" in run.stderr and "1 rollout dropped (over max_span_per_minute)" in run.stderr
    with Store.open(tmp_path / "store") as store:
        assert list(store.rollouts()) == [] and len(server.calls) == 3


def test_settings_come_from_a_file_and_flags_win(tmp_path: Any) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("sampling:\n  base_rate: 0.3\n  reward_threshold: 0.7\ncomponent: [a, b]\nlearning_rate: 1e-5\n")
    options = parse(["--config", str(config), "--policy", "http://x", "--reward-threshold", "0.9", "true"])
    assert (options.trace_sampling_rate, options.reward_threshold, options.component) == (0.3, 0.9, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sampling:\n  base_rat: 0.3", "no setting 'sampling.base_rat'; sampling.base_rate?"),
        ("trace_sampling_rate: 3", "trace_sampling_rate: '3' is no share between 0 and 1"),
        ("trace_sampling_rate: [0.1, 0.2]", "trace_sampling_rate is a list; it takes one value"),
        ("component: {a: 1}", "component is {'a': 1}, which is no text"),
        ("- 1", "holds a list; settings are `name: value`"),
        ("a: [", "is no YAML"),
        ("trace_sampling_rate: 0.1\nsampling: {base_rate: 0.2}", "is set twice, to 0.1 and to 0.2"),
    ],
)
def test_a_wrong_setting_is_named(text: str, problem: str, tmp_path: Any, launch: Any) -> None:
    (tmp_path / "c.yaml").write_text(text)
    run = launch("--config", tmp_path / "c.yaml", "true")
    assert run.returncode == 2 and problem in run.stderr and "Traceback" not in run.stderr, json.dumps(run.stderr)

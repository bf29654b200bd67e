"""Each SDK and framework in an environment of its own: what the server answered is what is recorded, call by call."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from environments import ENVIRONMENTS, Environment
from fake_server import FakeServer

from agentlight_store import Rollout, Store

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
INJECT = Path(__file__).parents[2] / "agentlight_run" / "agentlight_run" / "inject"
CASES = [
    pytest.param(environment, program, id=f"{environment.name}-{program}")
    for environment in ENVIRONMENTS
    for program in environment.programs
]
ROLES = {
    "lang_graph": ["agent", "planner", "writer", "streamer", "helper", "careful-sql-writer", "careful-sql-writer"],
    "autogen": ["writer", "critic"],
    "openai_agents": ["Writer", "Streamer", "Looker"],
}
TOOLS = {
    "lang_graph": [("search", "found cats")],
    "autogen": [("search", "found cats")],
    "openai_agents": [("look", "rain in épsilon")],
}
REWARDS = {"agent_lightning": {"syntax": 0.25, "goal": 0.75, "reward": 0.5}}  # the last one of a name
OBSERVED = {
    "agent_lightning": [
        ("message", "looked at the table"),
        ("object", {"rows": 3}),
        ("exception", {"type": "ValueError", "message": "no such column"}),
        ("annotation", {"phase": "planning"}),
    ]
}
# Without our middleware in the server, these formats have no ids, or not in a stream: docs/capture.md.
WITHOUT_IDS = ("anthropic_messages", "openai_responses")


def run(environment: Environment, program: str, server: FakeServer, store: Path | None) -> str:
    if not environment.executable.exists():
        pytest.skip(f"{environment.name} is not built (no Python {environment.python}?): `make matrix`")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTLIGHT_", "OPENAI_"))}
    if store is not None:
        variables |= {"PYTHONPATH": str(INJECT), "AGENTLIGHT_STORE": str(store), "AGENTLIGHT_RAISE": "1"}
    command = [str(environment.executable), str(PROGRAMS / f"{program}.py"), server.url]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def recorded(store: Path) -> Rollout:
    with Store.open(store) as opened:
        (rollout,) = opened.rollouts()
    return rollout


@pytest.mark.parametrize(("environment", "program"), CASES)
def test_what_was_answered_is_recorded(
    environment: Environment, program: str, server: FakeServer, tmp_path: Path
) -> None:
    """The agent prints the same, the server is asked the same number of times, each answer is one record with its ids
    where the wire format has them; agents and nodes are roles, tools are events."""
    plain = run(environment, program, server, None)
    asked = len([call for call in server.requests if call.choices])
    server.requests.clear()
    assert run(environment, program, server, tmp_path / "store") == plain
    answered = [call for call in server.requests if call.choices]
    rollout = recorded(tmp_path / "store")
    assert len(rollout.spans) == len(answered) == asked > 0
    for span, call in zip(rollout.spans, answered, strict=True):
        assert (span.status, span.http_status) == ("ok", 200), span.error
        if span.dialect in WITHOUT_IDS:
            assert span.trainable or span.reason
        else:
            assert [list(one.completion_ids or ()) for one in span.choices] == [one.ids for one in call.choices]
            assert span.trainable, span.reason
    if program in ROLES:
        assert [span.role for span in rollout.spans] == ROLES[program]
        assert [(event.name, event.content["result"]) for event in rollout.events] == TOOLS[program]
    if program in REWARDS:
        assert rollout.rewards == REWARDS[program]
        assert [(event.name, event.content) for event in rollout.events] == OBSERVED[program]

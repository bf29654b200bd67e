"""A fake server and real agents: what several test folders share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

from agentlight_store import Rollout, Span, Store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow ones first: of two workers, neither is left with minutes of a real vLLM when the other has nothing to do."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


INJECT = Path(__file__).parents[1] / "agentlight_run" / "agentlight_run" / "inject"


@dataclass
class AgentRun:
    """What an agent's process left behind."""

    returncode: int
    stdout: str
    stderr: str
    store: Path
    report: list[dict[str, Any]]

    @property
    def result(self) -> Any:
        """The JSON that the agent printed last."""
        assert self.stdout, self.stderr
        return json.loads(self.stdout.splitlines()[-1])

    @property
    def rollouts(self) -> list[Rollout]:
        if not (self.store / "data.mdb").exists():
            return []
        with Store.open(self.store) as store:
            return list(store.rollouts())

    @property
    def spans(self) -> list[Span]:
        return [span for rollout in self.rollouts for span in rollout.spans]

    @property
    def rewards(self) -> dict[str, float]:
        return {name: value for rollout in self.rollouts for name, value in rollout.rewards.items()}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.report if event["event"] == kind]


RunAgent = Callable[..., AgentRun]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct in a folder, for the slow tests."""
    folder = tmp_path_factory.mktemp("model") / "SmolLM2"
    root = Path(__file__).parent.parent
    command = [sys.executable, root / "examples" / "text_to_sql" / "make_model.py", folder]
    subprocess.run(command, cwd=root, env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=True, timeout=600)
    return folder


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture
def run_agent(tmp_path: Path) -> RunAgent:
    """Runs `source` as `agent.py` in a process of its own, captured or not, as agentlight-run would set it up."""

    def run(
        source: str,
        *arguments: str,
        capture: bool = True,
        strict: bool = True,
        env: dict[str, str] | None = None,
        name: str = "agent.py",
        command: list[str] | None = None,
        store: Path | None = None,
        code: int = 0,
        timeout: float = 60,
    ) -> AgentRun:
        """`strict`: an error of ours surfaces in the agent; `command` replaces `agent.py` on the command line."""
        script = tmp_path / name
        script.write_text(textwrap.dedent(source))
        report = tmp_path / "report"
        report.write_text("")
        store = tmp_path / "store" if store is None else store
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("AGENTLIGHT_", "OPENAI_"))
        }
        environment["PYTHONPATH"] = os.pathsep.join([*([str(INJECT)] if capture else []), str(tmp_path)])
        if capture:
            environment |= {"AGENTLIGHT_STORE": str(store), "AGENTLIGHT_REPORT": str(report)}
            environment |= {"AGENTLIGHT_RAISE": "1"} if strict else {}
        command = [sys.executable, *(command or [str(script)]), *arguments]
        done = subprocess.run(
            command, env=environment | (env or {}), cwd=tmp_path, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == code, done.stdout + done.stderr
        events = [json.loads(line) for line in report.read_text().splitlines()]
        return AgentRun(done.returncode, done.stdout, done.stderr, store, events)

    return run

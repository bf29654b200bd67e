"""`agentlight-run` as a real process, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentlight_store import Rollout, Store
from agentlight_store.check import check


@dataclass
class Launch:
    """What one `agentlight-run` left behind."""

    returncode: int
    stdout: str
    stderr: str
    store: Path

    @property
    def rollouts(self) -> list[Rollout]:
        with Store.open(self.store) as store:
            rollouts = list(store.rollouts())
        assert check(self.store) == []
        return rollouts

    @property
    def rollout(self) -> Rollout:
        (rollout,) = self.rollouts
        return rollout


class Launcher:
    """`agentlight-run` in `folder`, where the store is ./store."""

    program = str(Path(sys.executable).with_name("agentlight-run"))

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *arguments: Any, env: dict[str, str] | None = None, stdin: str = "", timeout: float = 60
    ) -> Launch:
        done = subprocess.run(
            [self.program, *map(str, arguments)],
            env=self._environment(env),
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Launch(done.returncode, done.stdout, done.stderr, self.folder / "store")

    def start(self, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [self.program, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, env=self._environment(None), **pipes | options)

    def _environment(self, more: dict[str, str] | None) -> dict[str, str]:
        """Ours without what a shell or another launcher may have left in it."""
        foreign = ("AGENTLIGHT_", "OPENAI_", "PYTHONPATH")
        return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | (more or {})


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes `source` as a script in the test's folder."""

    def write(source: str, name: str = "agent.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def launch(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)

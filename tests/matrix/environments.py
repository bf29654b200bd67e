"""The environments that agents of the matrix run in: an interpreter and pinned packages each, built once and kept.

`python tests/matrix/environments.py` builds those that are missing; an interpreter that this machine lacks is said.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from glob import glob
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venvs"
# What an agent's process needs of ours; our own packages come in through a .pth file.
OURS = ("lmdb", "msgpack", "msgspec", "wrapt", "opentelemetry-instrumentation")
IMPORT_ROOTS = ("agentlight_run", "instrumentation", "store")


@dataclass(frozen=True)
class Environment:
    """`programs` are the files in programs/ that run in it."""

    name: str
    python: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return HOME / self.name

    @property
    def executable(self) -> Path:
        return self.folder / "bin" / "python"


ENVIRONMENTS = (
    Environment("openai-0.28", "3.10", ("openai==0.28.1",), ("openai_0",)),
    Environment("openai-1.3", "3.11", ("openai==1.3.9", "httpx<0.28"), ("openai_chat",)),
    Environment("openai-1", "3.12", ("openai>=1.90,<2",), ("openai_chat", "openai_all")),
    Environment("openai-2", "3.13", ("openai>=2,<3",), ("openai_chat", "openai_all")),
    Environment("openai-3", "3.10", ("openai>=3",), ("openai_chat", "openai_all")),
    Environment("openai-3-new", "3.13", ("openai>=3", "httpx-aiohttp"), ("openai_chat", "openai_all")),
    Environment("anthropic-old", "3.11", ("anthropic==0.30.1", "httpx<0.28"), ("anthropic_messages",)),
    Environment("anthropic-new", "3.12", ("anthropic>=1",), ("anthropic_messages",)),
    Environment("langchain", "3.12", ("langchain>=1", "langchain-openai", "langgraph>=1"), ("lang_graph",)),
    Environment("autogen", "3.11", ("autogen-agentchat>=0.7", "autogen-ext[openai]"), ("autogen",)),
    Environment("openai-agents", "3.13", ("openai-agents>=0.20",), ("openai_agents",)),
    Environment("agent-lightning", "3.12", ("agentlightning==0.3.*", "openai>=2"), ("agent_lightning",)),
)


def interpreter(version: str) -> str | None:
    """A CPython of this version on PATH or under pyenv; None where there is none."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    kept = sorted(glob(str(Path.home() / ".pyenv" / "versions" / f"{version}.*" / "bin" / "python")))
    return kept[-1] if kept else None


def build(environment: Environment) -> str:
    """What came of it, in a word or two. Raises CalledProcessError when the packages cannot be installed."""
    stamp = environment.folder / "installed"
    wanted = "\n".join((environment.python, *environment.packages, *OURS))
    if stamp.exists() and stamp.read_text() == wanted:
        return "is there"
    python = interpreter(environment.python)
    if python is None:
        return f"left out: no Python {environment.python} on this machine"
    shutil.rmtree(environment.folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", environment.folder], check=True)
    install = [environment.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *environment.packages, *OURS], check=True)
    (packages,) = glob(str(environment.folder / "lib" / "python*" / "site-packages"))
    Path(packages, "agentlight.pth").write_text("".join(f"{ROOT / name}\n" for name in IMPORT_ROOTS))
    stamp.write_text(wanted)
    return "built"


def main() -> int:
    failed = 0
    for environment in ENVIRONMENTS:
        try:
            came = build(environment)
        except subprocess.CalledProcessError as error:
            came, failed = f"cannot be built: pip ended with status {error.returncode}", failed + 1
        print(f"{environment.name:15} Python {environment.python:5} {came}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

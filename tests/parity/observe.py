"""Runs one program with the launcher and without it, at the same time, and says in what the two differ."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_server import FakeServer

from agentlight_run.environment import INJECT

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
# What is in sys.modules when the agent's first line runs, because of us.
OURS = {
    "__future__",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
    "importlib.machinery",
    "warnings",
    "agentlight_instrumentation",
    "agentlight_instrumentation.bootstrap",
    "agentlight_instrumentation.frameworks",
    "agentlight_instrumentation.imports",
    "agentlight_instrumentation.report",
    "agentlight_instrumentation.settings",
    "agentlight_instrumentation.transports",
}
ADDED = {"return_token_ids": True, "logprobs": True, "stream_options": {"include_usage": True}}
CHANGED_HEADERS = ("content-length", "accept-encoding")


class HeaderServer(FakeServer):
    """Keeps of each request its first line, its header lines as they stood (order, case, repetition) and its body."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        arrived: list[tuple[list[tuple[str, str]], bytes]] = []
        self.arrived = arrived

        class Handler(self.RequestHandlerClass):  # type: ignore[misc,name-defined]
            def _received(self) -> Any:
                request = super()._received()
                arrived.append(([("", f"{self.command} {self.path}"), *self.headers.items()], request.body))
                return request

        self.RequestHandlerClass = Handler  # pyright: ignore[reportAttributeAccessIssue]

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # bodies that are no JSON are a part of the programs


@dataclass
class Program:
    """One file of programs/: `# name: value` lines below its docstring say how it is run."""

    path: Path
    run: str = "python {program}"
    env: dict[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    setup: list[str] = field(default_factory=list)  # shell lines, run before and without the launcher
    server: str = "vllm"  # "vllm", "plain" (some other server), or both
    unseen: str = ""  # why its calls are not captured, when they are not
    elsewhere: str = "0"  # how many of its calls are answered by somebody else than the server, or by nobody
    unfinished: str = ""  # why no closing line is seen, when it is not
    slow: str = ""
    fails: str = ""  # what of ours is known to be wrong
    needs: str = ""  # packages
    since: str = "3.10"  # the version of Python that has what it uses

    @staticmethod
    def read(path: Path) -> Program:
        program = Program(path)
        for line in filter(None, path.read_text().splitlines()[1:]):
            found = re.match(r"# (\w+): (.*)$", line)
            if not found:
                break
            name, value = found.groups()
            if name == "env":
                program.env |= dict(part.split("=", 1) for part in shlex.split(value))
            elif name == "setup":
                program.setup.append(value)
            elif name == "stdin":
                program.stdin = ast.literal_eval(value)
            else:
                assert hasattr(program, name), f"{path.name}: no such setting: {name}"
                setattr(program, name, value)
        return program


@dataclass
class Outcome:
    """All that can be seen of a run from outside, and what its processes wrote down of themselves."""

    code: int
    stdout: str
    stderr: str
    said: list[str]  # our own lines
    processes: list[dict[str, Any]]
    left: list[str]  # files in its folder
    requests: list[tuple[list[tuple[str, str]], bytes]]
    calls: int

    @property
    def recorded(self) -> int:
        """How many calls the closing line tells."""
        found = re.match(r"agentlight: ([\d,]+) calls?,", self.said[-1]) if self.said else None
        return int(found[1].replace(",", "")) if found else -1


def run_both(program: Program, folder: Path, kind: str) -> tuple[Outcome, Outcome]:
    """(without, with) the launcher."""
    with ThreadPoolExecutor(2) as pool:
        bare = pool.submit(_run, program, folder / "bare", kind, launched=False)
        launched = pool.submit(_run, program, folder / "with", kind, launched=True)
        return bare.result(), launched.result()


def _run(program: Program, folder: Path, kind: str, *, launched: bool) -> Outcome:
    work = folder / "work"
    work.mkdir(parents=True)
    (folder / "log").touch()
    (work / program.path.name).write_text(program.path.read_text())
    server = HeaderServer(owned_by="vllm" if kind == "vllm" else "somebody")
    environment = _environment(program, folder, server.url)
    for line in program.setup:
        line = line.replace("{aids}", str(HERE / "aids"))
        subprocess.run(["bash", "-ec", line], cwd=work, env=environment, check=True, capture_output=True)
    command = shlex.split(program.run.replace("{program}", program.path.name))
    if launched:
        command = ["agentlight-run", "--store", str(folder / "store"), "--", *command]
    done = subprocess.run(
        command, cwd=work, env=environment, input=program.stdin, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    server.close()

    def text(raw: bytes) -> str:
        shown = raw.decode(errors="backslashreplace").replace(str(folder), "FOLDER")
        shown = shown.replace(f":{server.server_port}", ":PORT").replace(f"port={server.server_port}", "port=PORT")
        shown = re.sub(r"\bin \d+\.\d\ds\b", "in SECONDS", shown)
        shown = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", shown)
        # What we cannot hide: the one entry of sys.path, and extension modules that a fatal error lists.
        return re.sub(r"\nExtension modules: .*\n", "", shown.replace(f"'{INJECT}', ", ""))

    lines = text(done.stderr).splitlines(keepends=True)
    first = len(lines)
    while launched and first and lines[first - 1].startswith("agentlight: "):
        first -= 1
    return Outcome(
        code=done.returncode if done.returncode >= 0 else 128 - done.returncode,
        stdout=text(done.stdout),
        stderr="".join(lines[:first]),
        said=lines[first:],
        processes=_processes(text((folder / "log").read_bytes())),
        left=sorted(str(path.relative_to(work)) for path in work.rglob("*")) if work.exists() else [],
        requests=[([(name, text(value.encode())) for name, value in head], body) for head, body in server.arrived],
        calls=len(server.calls),
    )


def _environment(program: Program, folder: Path, url: str) -> dict[str, str]:
    return {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(HERE / "aids"),
        "PARITY_LOG": str(folder / "log"),
        "PARITY_GROUP": str(os.getpgrp()),
        "LLM_URL": url,
        **{name: value.replace("{aids}", str(HERE / "aids")) for name, value in program.env.items()},
    }


def _processes(log: str) -> list[dict[str, Any]]:
    """What the processes wrote, less what is ours; in an order that does not depend on who was first."""
    found = []
    for line in log.splitlines():
        facts = json.loads(line)
        if any(word.endswith("/agentlight-run") for word in facts["command"]):
            continue  # the launcher is a Python program too, and finds the sitecustomize of the tests
        facts["command"] = [re.sub(r"\d+|/tmp/tmp\w+", "N", word) for word in facts["command"]]  # ports, descriptors
        facts["path"] = [entry for entry in facts["path"] if entry != INJECT]
        facts["finders"] = [finder for finder in facts["finders"] if finder != "Hook"]
        facts["environment"] = [name for name in facts["environment"] if not name.startswith("AGENTLIGHT_")]
        facts["descriptors"] = [link for link in facts["descriptors"] if not link.startswith("FOLDER/store/")]
        if "modules" in facts:
            facts["modules"] = sorted(set(facts["modules"]) - OURS)
        found.append(facts)
    return sorted(found, key=lambda facts: json.dumps([facts["when"], facts["command"], facts]))


def differences(bare: Outcome, launched: Outcome, kind: str) -> dict[str, Any]:
    """What is seen in which run; empty when the launcher changed nothing but what it says it changes."""
    found: dict[str, Any] = {}
    for name in ("code", "stdout", "stderr", "left"):
        before, after = getattr(bare, name), getattr(launched, name)
        if before != after:
            found[name] = {"without": before, "with": after}
    if len(bare.processes) != len(launched.processes):
        found["processes"] = [[(one["when"], one["command"]) for one in run.processes] for run in (bare, launched)]
    else:
        for before, after in zip(bare.processes, launched.processes, strict=True):
            for name, value in before.items():
                if value != after[name]:
                    key = f"{before['when']} of {before['command']}: {name}"
                    found[key] = {"without": value, "with": after[name]}
    before, after = _requests(bare, kind, ours=False), _requests(launched, kind, ours=True)
    if before != after:
        found["requests"] = {"without": before, "with": after}
    return found


def _requests(run: Outcome, kind: str, *, ours: bool) -> list[tuple[list[tuple[str, str]], bytes]]:
    """Header lines and body of each; the question what the server is and the documented fields are taken out."""
    found = []
    for head, body in run.requests:
        if head[0][1].startswith("GET ") and head[0][1].endswith("/models"):
            continue
        if kind == "vllm" and head[0][1].startswith("POST "):
            head = [(name, value) for name, value in head if name.lower() not in CHANGED_HEADERS]
            body = _without_additions(body) if ours else body
        found.append((head, body))
    return sorted(found)


def _without_additions(body: bytes) -> bytes:
    """Ours stand in front; what follows is the agent's own, byte for byte."""
    text = body.decode(errors="replace")
    position = 1
    while found := re.match(
        r'"(return_token_ids|logprobs|stream_options)":(true|\{"include_usage":true\}),', text[position:]
    ):
        assert json.loads(found[2]) == ADDED[found[1]]
        position += found.end()
    return body[:1] + body[position:]

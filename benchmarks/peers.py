"""agentlight-run beside its peers, each in an environment of its own: start-up, and time added to one OpenAI call.

Start-up is LAUNCHER `python empty.py` less `python empty.py` in the same environment. A call is one of the OpenAI
SDK, the same version everywhere, to a server process that replies at once with 25 KB (200 tokens with ids and
log-probs, which the agent asks for). Each tool's agent, with its launcher and without, is kept running, and all make a
few calls in turn, round by round; what is added is the difference of the two medians of a round. Printed are medians
over the rounds, of the time on the clock and of processor time, which other work on the machine disturbs less.

agentlight commits each call to disk. The peers are spared theirs: OpenTelemetry's spans are made and exported nowhere,
logfire sends nothing, ddtrace's agent does not exist. None of the peers keeps token ids. A separate run proves that
each does see the calls. Environments are made in .venvs/ on the first run, which needs a package index; a peer that
cannot be installed is named and left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import reply_server

ROOT = Path(__file__).resolve().parents[1]
OPENAI = "openai==3.57.0"
QUIET = {
    "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
    "DD_LLMOBS_ENABLED": "1", "DD_LLMOBS_AGENTLESS_ENABLED": "1", "DD_LLMOBS_ML_APP": "benchmark", "DD_API_KEY": "none",
    "DD_SITE": "localhost", "DD_TRACE_AGENT_URL": "http://127.0.0.1:9", "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false", "DD_TRACE_STARTUP_LOGS": "false",
    "LOGFIRE_SEND_TO_LOGFIRE": "false", "LOGFIRE_CONSOLE": "false",
}  # fmt: skip
WARM_UP = 20  # calls
AGENT = """
import json, statistics, sys, time
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
fields = {"logprobs": True, "extra_body": {"return_token_ids": True}}
number = 0
for line in sys.stdin:  # how many calls are to be made now
    clock, processor = [], []
    for _ in range(int(line)):
        number += 1
        messages = [{"role": "user", "content": f"question {number}: " + "text " * 100}]
        start, used = time.perf_counter(), time.process_time()
        reply = client.chat.completions.create(model="policy", messages=messages, **fields)
        processor.append(time.process_time() - used)
        clock.append(time.perf_counter() - start)
    assert len(reply.choices[0].logprobs.content) == 200
    print("MEDIANS", statistics.median(clock), statistics.median(processor), flush=True)
print("WRAPPED", hasattr(type(client.chat.completions).create, "__wrapped__"))
"""


@dataclass(frozen=True)
class Tool:
    """`sees` is what the tool prints or exports for each call when it is run with `proof`."""

    name: str
    packages: tuple[str, ...]
    launcher: tuple[str, ...]
    proof: dict[str, str] = field(default_factory=dict)
    sees: str = ""

    @property
    def folder(self) -> Path:
        return ROOT / ".venvs" / f"peer-{self.name}"

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def executable(self) -> str:
        return str(self.folder / "bin" / self.launcher[0])

    def launched(self, *script: str) -> list[str]:
        """The command that runs a script under the launcher; logfire is its own interpreter."""
        python = () if self.name == "logfire" else (self.python,)
        return [self.executable, *self.launcher[1:], *python, *script]


CONSOLE = {"OTEL_TRACES_EXPORTER": "console"}
TOOLS = (
    Tool("agentlight", ("--editable", str(ROOT)), ("agentlight-run",)),
    Tool(
        "openllmetry", ("opentelemetry-distro", "opentelemetry-instrumentation-openai"), ("opentelemetry-instrument",),
        CONSOLE, '"name": "openai.chat"',
    ),
    Tool(
        "openinference", ("opentelemetry-distro", "openinference-instrumentation-openai"),
        ("opentelemetry-instrument",), CONSOLE, '"name": "ChatCompletion"',
    ),
    Tool("ddtrace", ("ddtrace",), ("ddtrace-run",)),
    Tool("logfire", ("logfire",), ("logfire", "run", "--no-summary"), {"LOGFIRE_CONSOLE": "true"}, "Chat Completion"),
)  # fmt: skip


def installed(tool: Tool) -> bool:
    if os.path.exists(tool.executable):
        return True
    try:
        subprocess.run([sys.executable, "-m", "venv", tool.folder], check=True)
        install = [tool.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, OPENAI, *tool.packages], check=True)
    except subprocess.CalledProcessError:
        print(f"{tool.name} could not be installed here and is left out")
        return False
    return True


def environment(store: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTLIGHT_", "OTEL_", "DD_"))}
    return kept | QUIET | {"AGENTLIGHT_STORE": store} | more


def run(command: list[str], env: dict[str, str], said: str = "") -> str:
    done = subprocess.run(command, env=env, input=said, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout + done.stderr


def sees_the_calls(tool: Tool, script: list[str], store: str) -> bool:
    calls = 5
    said = run(tool.launched(*script), environment(store, **tool.proof), f"{calls}\n")
    if tool.name == "agentlight":
        return f"agentlight: {calls} calls" in said
    if tool.name == "ddtrace":  # tells its backend only: it has wrapped what it watches
        return "WRAPPED True" in said
    return said.count(tool.sees) >= calls


def startup(tools: list[Tool], rounds: int, empty: str, store: str) -> dict[str, float]:
    """Median milliseconds over bare Python."""
    env = environment(store)

    def milliseconds(command: list[str]) -> float:
        start = time.perf_counter()
        run(command, env)
        return (time.perf_counter() - start) * 1e3

    return in_turn(tools, rounds, lambda tool: -milliseconds([tool.python, empty]) + milliseconds(tool.launched(empty)))


class Agent:
    """One that waits to be told how many calls to make."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def milliseconds(self, calls: int) -> tuple[float, float]:
        """The median call by the clock and by the processor."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        while not (line := self._process.stdout.readline()).startswith("MEDIANS"):
            assert line, "the agent has ended"
        _, clock, processor = line.split()
        return float(clock) * 1e3, float(processor) * 1e3

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # ddtrace would wait for its backend
        self._process.wait()


def per_call(
    tools: list[Tool], rounds: int, calls: int, script: list[str], store: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Median milliseconds over the agent without launcher: by the clock, and by the processor."""
    env = environment(store)
    pairs = {tool.name: (Agent([tool.python, *script], env), Agent(tool.launched(*script), env)) for tool in tools}
    try:
        for pair in pairs.values():
            [agent.milliseconds(WARM_UP) for agent in pair]
        found: dict[str, list[tuple[float, float]]] = {tool.name: [] for tool in tools}
        for number in range(rounds):
            for name, (bare, launched) in pairs.items():
                if number % 2:  # whoever is first finds the processor's caches as another agent left them
                    after, before = launched.milliseconds(calls), bare.milliseconds(calls)
                else:
                    before, after = bare.milliseconds(calls), launched.milliseconds(calls)
                found[name].append((after[0] - before[0], after[1] - before[1]))
    finally:
        [agent.end() for pair in pairs.values() for agent in pair]
    clock, processor = (
        {name: statistics.median(one[which] for one in ones) for name, ones in found.items()} for which in (0, 1)
    )
    return clock, processor


def in_turn(tools: list[Tool], rounds: int, pair: Callable[[Tool], float]) -> dict[str, float]:
    for tool in tools:
        pair(tool)  # files are cached, bytecode is written
    found = [[pair(tool) for tool in tools] for _ in range(rounds)]
    return {tool.name: statistics.median(column) for tool, column in zip(tools, zip(*found, strict=True), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description="agentlight-run beside its peers")
    parser.add_argument("--rounds", type=int, default=60, help="of calls (default 60), and a sixth of start-ups")
    parser.add_argument("--calls", type=int, default=15, help="of each agent and round (default 15)")
    options = parser.parse_args()
    tools = [tool for tool in TOOLS if installed(tool)]
    with tempfile.TemporaryDirectory() as folder, reply_server.started() as url:
        agent, empty, store = Path(folder, "agent.py"), Path(folder, "empty.py"), str(Path(folder, "store"))
        agent.write_text(AGENT)
        empty.write_text("")
        for tool in tools:
            if not sees_the_calls(tool, [str(agent), url], store):
                print(f"{tool.name} does not see the calls of {OPENAI}: its figures are those of an idle tool")
        starts = startup(tools, -(-options.rounds // 6), str(empty), store)
        clock, processor = per_call(tools, options.rounds, options.calls, [str(agent), url], store)
    print(f"{len(os.sched_getaffinity(0))} cores, {OPENAI}, {options.rounds} rounds of {options.calls} calls")
    print(f"{'':<14}{'start-up':>12}{'of ours':>9}{'a call, clock':>16}{'of ours':>9}{'processor':>12}{'of ours':>9}")
    for tool in tools:
        line = f"{tool.name:<14}"
        for values, width, digits in ((starts, 9, 0), (clock, 13, 3), (processor, 9, 3)):
            line += f"{values[tool.name]:{width}.{digits}f} ms{values[tool.name] / values['agentlight']:8.2f}x"
        print(line)


if __name__ == "__main__":
    main()

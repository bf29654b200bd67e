"""docs/coverage.md from the results of `pytest tests/matrix --junitxml=FILE`; takes FILE."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as xml

from environments import ENVIRONMENTS, ROOT, Environment

DOCUMENT = ROOT / "docs" / "coverage.md"
HEAD = """\
# Coverage

Each row is a program of `tests/matrix/programs/` in an environment of its own, run against a server that logs what it
answered: the agent prints the same with capture and without, each answer is one record, ids and log-probs are the
server's own where the wire format has them (docs/capture.md). `make test` runs it all;
`python tests/matrix/coverage_table.py` writes this table from a run's results.

| environment | Python | packages | program | HTTP libraries there | wire formats | result |
|---|---|---|---|---|---|---|
"""
# Of a program: the HTTP libraries below it, by the packages that bring them, and the wire formats that it speaks.
SPEAKS = {
    "openai_0": "chat completions, text completions",
    "openai_chat": "chat completions, text completions",
    "openai_all": "chat completions, text completions, Responses",
    "anthropic_messages": "Messages",
    "lang_graph": "chat completions",
    "autogen": "chat completions",
    "openai_agents": "chat completions",
    "agent_lightning": "chat completions",
}
LIBRARIES = ("requests", "aiohttp", "httpx2", "httpx")


def main() -> int:
    results = {case.get("name"): _result(case) for case in xml.parse(sys.argv[1]).iter("testcase")}
    rows = []
    for environment in ENVIRONMENTS:
        installed = _installed(environment)
        named = [name.partition("=")[0].partition(">")[0].partition("<")[0] for name in environment.packages]
        shown = ", ".join(f"{name} {installed.get(name.partition('[')[0], '?')}" for name in named)
        over = ", ".join(name for name in LIBRARIES if name in installed)
        for program in environment.programs:
            result = results.get(f"test_what_was_answered_is_recorded[{environment.name}-{program}]", "not run")
            cells = [environment.name, environment.python, shown, program, over, SPEAKS[program], result]
            rows.append("| " + " | ".join(cells) + " |\n")
    DOCUMENT.write_text(HEAD + "".join(rows))
    return 0


def _result(case: xml.Element) -> str:
    failed = case.find("failure") is not None or case.find("error") is not None
    return "failed" if failed else "skipped" if case.find("skipped") is not None else "same, all recorded"


def _installed(environment: Environment) -> dict[str, str]:
    if not environment.executable.exists():
        return {}
    listed = subprocess.run([environment.executable, "-m", "pip", "freeze"], capture_output=True, text=True, check=True)
    lines = [line.split("==") for line in listed.stdout.splitlines() if "==" in line]
    return {name.lower(): version for name, version in lines}


if __name__ == "__main__":
    sys.exit(main())

"""Each of our functions is made to raise in turn: the agent gets its replies all the same, and what is lost is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_server import FakeServer

from agentlight_store import Store

AIDS = Path(__file__).parent / "aids"
OURS = "agentlight_instrumentation"
# Where an error can only reach the agent: guards, what drives the library's methods, and what hands over the bytes.
DOORS = re.compile(
    rf"""{OURS}\.(
    guard:Guarded\..*
    | flow:(drive|drive_async|converse|_send|_begin|Course\..*)
    | imports:(Hook\.find_spec|patch)
    | dialects:find  # http.client: tells in the agent's own call whether anything is to be imported
    | filelike:(_watched|watch|Tee\..*)
    | transports\.\w+:(
        _wire | patch\.<locals>.*  # the function in the place of the library's
        | _?(Async)?Wire\.(begin|end|send|read|replace|watch|raised_for|_raise_for)
        | _?(Async)?Wire\.(_request|_outgoing|_restored|_change_headers)
        | _?watched_\w+\.<locals>\.Watched.* | _Stream\..* | _File\..*  # the reply's bytes
        | _is_preloaded | holding | _NoProtocol\..*
      )
    )""",
    re.VERBOSE,
)
# A failure in the last resort cannot be said by the last resort.
MUTE = re.compile(rf"{OURS}\.(report:.*|guard:lost|settings:get)")


def run(arguments: list[str], folder: Path, server: FakeServer) -> tuple[list[dict[str, Any]], dict[str, int], str]:
    """What faults.py printed; how many calls the store has by what they asked; what the launcher said."""
    launcher, store = Path(sys.executable).with_name("agentlight-run"), folder / "store"
    command = [str(launcher), "--store", str(store), sys.executable, str(AIDS / "faults.py"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTLIGHT_")}
    environment |= {"PYTHONPATH": str(AIDS), "LLM_URL": server.url, "PARITY_LOG": os.devnull, "PARITY_GROUP": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    recorded: dict[str, int] = {}
    with Store.open(store) as opened:
        for rollout in opened.rollouts():
            for span in rollout.spans:
                asked = span.messages[0]["content"]
                recorded[asked] = recorded.get(asked, 0) + 1
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()], recorded, done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a code object tells its qualified name since Python 3.11")
@pytest.mark.parametrize(
    "arguments",
    [
        ["httpx", "warm"],
        ["async_httpx", "warm"],
        ["requests", "warm"],
        ["aiohttp", "warm"],
        ["urllib", "warm"],
        pytest.param(["urllib", "cold"], marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def test_an_error_in_any_of_our_functions_leaves_the_agents_replies_as_they_are(
    arguments: list[str], tmp_path: Path, server: FakeServer
) -> None:
    """A whole and a streamed call while the function raises, and two once it is whole again; DOORS are the exception.

    Each of the two calls is recorded or reported to be lost, and when the function is whole again both are recorded.
    """
    lines, recorded, said = run(arguments, tmp_path, server)
    assert len(lines) > 80
    sampled = {one.json["messages"][0]["content"]: one.choices[0].message["content"] for one in server.calls}
    reached = {line["function"] for line in lines if "RuntimeError: injected" in line["with"]}
    assert [name for name in sorted(reached) if not DOORS.fullmatch(name)] == []
    unsaid, lasting, wrong = [], [], []
    for line in lines[1:]:
        name = line["function"]
        asked, after = ([f"{word}{name} {stream}" for stream in (False, True)] for word in ("", "after "))
        found = sum(recorded.get(one, 0) for one in asked)
        if name not in reached:
            if line["with"] != [sampled.get(one) for one in asked]:
                wrong.append((name, line["with"]))
            # A library that could not be patched is said once, not with each of its calls.
            needed = 1 if name.startswith(f"{OURS}.imports:") or name.endswith(":patch") else 2
            if found + line["lost"] < needed and not MUTE.fullmatch(name):
                unsaid.append((name, found, line["lost"]))
        whole = ([sampled.get(one) for one in after], [1, 1])
        if line["after"] and (line["after"], [recorded.get(one) for one in after]) != whole:
            lasting.append((name, line["after"], [recorded.get(one) for one in after]))
    assert wrong == []
    assert unsaid == []
    assert lasting == []
    assert "not everything was recorded" in said

"""The store fails while the agent runs: the agent's output and status are the same, and what is lost is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity.observe import Program, run_both

ASKS = """
import os
from llm import ask, ask_httpx

{before}
print(ask("one"), ask_httpx("two"), flush=True)
{between}
print(ask("three"), ask_httpx("four"))
raise SystemExit(3)
"""
# What the agent does to its store before its first call; without the launcher it has none, and does it to nothing.
FAULTS = {
    "it cannot be created": "os.environ['AGENTLIGHT_STORE'] = '/proc/store'",
    "its file system is read-only": "os.environ['AGENTLIGHT_STORE'] = '/sys/store'",
    "it is a file": "open('taken', 'w').close(); os.environ['AGENTLIGHT_STORE'] = os.path.abspath('taken')",
    "its files may not grow": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, 1 << 10))",
    "it is on a network file system": (
        "import agentlight_store.environment; agentlight_store.environment.filesystem_of = lambda path: 'nfs4'"
    ),
    "it is no LMDB environment": (
        "store = os.environ.get('AGENTLIGHT_STORE')\n"
        "if store: os.unlink(store + '/data.mdb'); open(store + '/data.mdb', 'wb').write(bytes(range(256)) * 64)"
    ),
    "another version has made it": (
        "import subprocess, sys; store = os.environ.get('AGENTLIGHT_STORE')\n"
        "code = 'import lmdb, sys; txn = lmdb.open(sys.argv[1]).begin(write=True); '\n"
        'code += \'txn.put(b"agentlight-store", b"99"); txn.commit()\'\n'
        "if store: subprocess.run([sys.executable, '-I', '-c', code, store], check=True)"
    ),
    "it is deleted": "import shutil; shutil.rmtree(os.environ.get('AGENTLIGHT_STORE', '/nowhere'), ignore_errors=True)",
    "no descriptor is left": (
        "import resource; from urllib.parse import urlsplit; ask('0'); ask_httpx('0')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) + 1,) * 2)"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("when", ["from the start", "after two calls"])
def test_a_store_that_fails_costs_the_records_and_nothing_else(fault: str, when: str, tmp_path: Path) -> None:
    before, between = (FAULTS[fault], "") if when == "from the start" else ("", FAULTS[fault])
    program = Program(tmp_path / "agent.py")
    program.path.write_text(ASKS.format(before=before, between=between))
    bare, launched = run_both(program, tmp_path, "vllm")
    assert bare.code == 3, bare.stderr
    assert (launched.code, launched.stdout, launched.stderr) == (bare.code, bare.stdout, bare.stderr)
    said = "".join(launched.said)
    assert launched.recorded == launched.calls or "warning: " in said, said

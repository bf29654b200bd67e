"""Time that agentlight-run adds to the shortest Python program, its own start and end and the store's included."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 20
BUDGET = 80.0  # ms


def main() -> None:
    launcher = str(Path(sys.executable).with_name("agentlight-run"))
    bare = [sys.executable, "-c", "pass"]
    with tempfile.TemporaryDirectory() as store:
        launched = [launcher, "--store", store, *bare]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTLIGHT_")}

        def milliseconds(command: list[str]) -> float:
            start = time.perf_counter()
            subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
            return (time.perf_counter() - start) * 1e3

        for command in (bare, launched):  # files are cached, bytecode is written
            milliseconds(command)
        pairs = [(milliseconds(bare), milliseconds(launched)) for _ in range(RUNS)]
    without, with_launcher = (statistics.median(column) for column in zip(*pairs, strict=True))
    added = statistics.median(launch - alone for alone, launch in pairs)
    print(f"medians of {RUNS} alternating runs")
    print(f"python -c pass                  {without:6.1f} ms")
    print(f"agentlight-run python -c pass   {with_launcher:6.1f} ms   {with_launcher / without:.2f}x")
    print(f"added                           {added:6.1f} ms   (budget {BUDGET:.0f} ms)")


if __name__ == "__main__":
    main()

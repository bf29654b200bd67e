"""The process tree as the system shows it; knows nothing of rollouts."""

from __future__ import annotations

import os


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, deepest first; empty where the system has no /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            children.setdefault(_parent(name), []).append(int(name))
    found: list[int] = []
    new = children.get(pid, [])
    while new:
        found = new + found
        new = [grandchild for child in new for grandchild in children.get(child, [])]
    return found


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program stands in parentheses and may hold any character.
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:  # it has ended
        return -1

"""The agent's own sitecustomize: writes down what each Python process is like at its start and at its orderly end."""

import sys

_modules = sorted(sys.modules)  # before anything is imported here

import atexit
import json
import os
import warnings


def _signals():
    """Blocked, ignored and caught signals; not 32 and 33, the C library's own, which its posix_spawn leaves ignored."""
    with open("/proc/self/status") as status:
        masks = dict(line.split() for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt")))
    return {name: f"{int(mask, 16) & ~(3 << 31):x}" for name, mask in masks.items()}


def _descriptors():
    """What is open, without the numbers of pipes and sockets."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # of the listing itself
    return sorted(link.split("[")[0] if link.startswith(("pipe", "socket", "anon")) else link for link in links)


def _state():
    return {
        "path": sys.path[:],
        "finders": [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path],
        "path_hooks": len(sys.path_hooks),
        "modules_type": type(sys.modules).__name__,
        "filters": [[one[0], str(one[1] and one[1].pattern), one[2].__name__, one[3]] for one in warnings.filters],
        "hooks": [sys.excepthook is sys.__excepthook__, sys.gettrace() is None, sys.getprofile() is None],
        "descriptors": _descriptors(),
        "signals": _signals(),
        "folder": os.getcwd() if os.path.exists("/proc/self/cwd/.") else None,
        "group": os.getpgrp() == int(os.environ["PARITY_GROUP"]),
        "environment": sorted(os.environ),
        "encoding": [sys.stdout and sys.stdout.encoding, sys.getfilesystemencoding(), sys.stdout and sys.stdout.errors],
        "recursion": sys.getrecursionlimit(),
    }


def _say(**facts):
    with open(os.environ["PARITY_LOG"], "a") as log:
        log.write(json.dumps(facts) + "\n")


_threads = len(os.listdir("/proc/self/task"))
_say(when="start", threads=_threads, flags=str(sys.flags), command=sys.orig_argv, modules=_modules, **_state())
_started_by = os.getpid()


def _at_exit():
    _say(when="end", command=sys.orig_argv, forked=os.getpid() != _started_by, **_state())


atexit.register(_at_exit)

"""Put first on PYTHONPATH by agentlight-run: starts capture, then runs the sitecustomize that this one hides."""

import os
import sys


def _start():
    try:
        from agentlight_instrumentation import bootstrap
    except Exception as error:
        # This interpreter has no agentlight, or one that does not fit: the agent runs on, and the launcher says so.
        _tell_launcher(f"{type(error).__name__}: {error}")
        return
    try:
        bootstrap.start()
    except Exception as error:
        if os.environ.get("AGENTLIGHT_RAISE"):
            raise
        _tell_launcher(f"bootstrap failed: {type(error).__name__}: {error}")


def _tell_launcher(detail):
    path = os.environ.get("AGENTLIGHT_REPORT")
    if path:
        line = '{"event": "no-agentlight", "pid": %d, "python": "%s", "detail": "%s"}\n'
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(line % (os.getpid(), _escaped(sys.executable), _escaped(detail)))
        except OSError:
            return


def _escaped(text):
    # By hand: what the agent finds imported at its start is what it would find without us.
    return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\u{min(ord(c), 0xFFFF):04x}" for c in text)


def _run_hidden():
    """The next sitecustomize on the path runs once, under its own name and with its own __file__, errors and all."""
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    places = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    # Not from importlib.util, which imports contextlib, functools and collections ahead of the agent.
    from importlib._bootstrap import module_from_spec

    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(module)


if os.environ.get("AGENTLIGHT_STORE"):
    _start()
_run_hidden()

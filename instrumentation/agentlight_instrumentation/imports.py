"""The import hook: patches an HTTP library, or the code of a named function, the moment the agent imports it.

Only the loader's method is shadowed for the one load; afterwards the module, its spec and its loader are what
they would have been without us.
"""

from __future__ import annotations

import sys

from agentlight_instrumentation.report import report

TYPE_CHECKING = False  # `typing` costs milliseconds of every start
if TYPE_CHECKING:
    from typing import Any


class Hook:
    """A `sys.meta_path` entry that finds nothing itself: it lets the others find, and marks what they found."""

    def __init__(self, libraries: dict[str, str], function: tuple[str, str] | None) -> None:
        self.libraries = libraries
        self.function = function
        self._busy: set[str] = set()
        self._unseen = set(libraries)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self._unseen:
            self._catch_up()
        wanted = name in self.libraries or (self.function is not None and name == self.function[0])
        if not wanted or name in self._busy:
            return None
        self._busy.add(name)
        try:
            above = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0  # they have found nothing
            below = sys.meta_path[above:]
            spec = next(filter(None, (self._ask(finder, name, path, target) for finder in below)), None)
        finally:
            self._busy.discard(name)
        if spec is not None and spec.loader is not None:
            if name in self.libraries:
                self._unseen.discard(name)
                _after_load(spec.loader, name, self.libraries[name])
            if self.function is not None and name == self.function[0] and not hasattr(spec.loader, "observes"):
                change_code(spec.loader, self.function)
        return spec

    def _ask(self, finder: Any, name: str, path: Any, target: Any) -> Any:
        find_spec = getattr(finder, "find_spec", None)
        return None if find_spec is None else find_spec(name, path, target)

    def _catch_up(self) -> None:
        """Patch what a finder of the agent's, ahead of this one, has loaded meanwhile."""
        for name in [name for name in self._unseen if name in sys.modules]:
            if not getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False):
                self._unseen.discard(name)
                patch(name, self.libraries[name], sys.modules[name])


def _after_load(loader: Any, name: str, transport: str) -> None:
    load = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        load(module)
        patch(name, transport, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        report("lost", reason=f"{name} could not be patched: its loader {type(loader).__name__} is closed")


def patch(name: str, transport: str, module: Any) -> None:
    """Patch a library that has just been imported; said to the launcher either way."""
    from importlib import import_module

    from agentlight_instrumentation.guard import Guarded

    with Guarded(f"patch {name}"):
        import_module(f"agentlight_instrumentation.transports.{transport}").patch(module)
        report("patched", library=name)


def change_code(loader: Any, function: tuple[str, str]) -> None:
    """Make the loader's code for the module hand the results of the function to the rewards."""
    get_code = loader.get_code

    def changed(name: str) -> Any:
        del loader.get_code
        return observed(get_code(name), function)

    loader.get_code = changed


def observed(code: Any, function: tuple[str, str]) -> Any:
    """The module's code with the named function observed; unchanged, and said so, when it has no such function."""
    from agentlight_instrumentation.bytecode import NotFound, observe
    from agentlight_instrumentation.guard import Guarded
    from agentlight_instrumentation.rewards import returned

    with Guarded(f"wrap {':'.join(function)}"):
        try:
            return observe(code, function[1], returned)
        except (NotFound, TypeError) as error:
            report(
                "reward-missing",
                detail=f"{function[0]} has {error}" if isinstance(error, NotFound) else str(error),
            )
    return code

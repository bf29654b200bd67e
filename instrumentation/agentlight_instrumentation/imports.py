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

    from agentlight_instrumentation.settings import Function


class Hook:
    """A `sys.meta_path` entry that finds nothing itself: it lets the others find, and marks what they found."""

    def __init__(self, libraries: dict[str, str], functions: list[Function]) -> None:
        self.libraries = libraries
        self.functions: dict[str, list[Function]] = {}
        for function in functions:
            self.functions.setdefault(function.module, []).append(function)
        self._busy: set[str] = set()
        self._unseen = set(libraries)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.startswith("agentlight_"):  # also when an error of ours, said below, is the cause of the import
            return None
        try:
            return self._find(name, path, target)
        except Exception as error:
            from agentlight_instrumentation.guard import is_ours

            if not is_ours(error, f"watch the import of {name}"):
                raise
            return None

    def _find(self, name: str, path: Any, target: Any) -> Any:
        if self._unseen:
            self._catch_up()
        functions = self._functions(name) if self.functions else ()
        if not (functions or name in self.libraries) or name in self._busy:
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
            if functions and not hasattr(spec.loader, "observes"):
                change_code(spec.loader, functions)
        return spec

    def _functions(self, name: str) -> list[Function]:
        """Those of the module; `python -m NAME` loads `__main__` under its own name."""
        found = self.functions.get(name, [])
        if "__main__" in self.functions and name.removesuffix(".__main__") == _run_as_module():
            found = [*found, *self.functions["__main__"]]
        return found

    def _ask(self, finder: Any, name: str, path: Any, target: Any) -> Any:
        find_spec = getattr(finder, "find_spec", None)
        return None if find_spec is None else find_spec(name, path, target)

    def _catch_up(self) -> None:
        """Patch what a finder of the agent's, ahead of this one, has loaded meanwhile."""
        for name in self.take_present():
            patch(name, self.libraries[name], sys.modules[name])

    def take_present(self) -> list[str]:
        """The libraries that are loaded and have not been patched; all at once, for patching one imports others."""
        present = [
            name
            for name in self.libraries
            if name in self._unseen
            and name in sys.modules
            and not getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False)
        ]
        self._unseen.difference_update(present)
        return present


def _after_load(loader: Any, name: str, file: str) -> None:
    load = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        load(module)
        patch(name, file, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        report("lost", reason=f"{name} could not be patched: its loader {type(loader).__name__} is closed")


def patch(name: str, file: str, module: Any) -> None:
    """Patch a library that has just been imported; of an HTTP library the launcher is told."""
    from importlib import import_module

    from agentlight_instrumentation.guard import Guarded

    with Guarded(f"patch {name}"):
        import_module(f"agentlight_instrumentation.{file}").patch(module)
        if file.startswith("transports."):
            report("patched", library=name)


def _run_as_module() -> str | None:
    """NAME of `python -m NAME`, while the interpreter looks for it."""
    if sys.argv[:1] != ["-m"]:
        return None
    words = sys.orig_argv[1:]
    return words[words.index("-m") + 1] if "-m" in words[:-1] else None


def change_code(loader: Any, functions: list[Function]) -> None:
    """Make the loader's code for the module one in which these functions are observed."""
    get_code = loader.get_code

    def changed(name: str) -> Any:
        del loader.get_code
        return observed(get_code(name), functions)

    loader.get_code = changed


def observed(code: Any, functions: list[Function]) -> Any:
    """The module's code with the functions observed; a function that it does not have is said."""
    from agentlight_instrumentation.bytecode import NotFound, observe
    from agentlight_instrumentation.functions import handler_of
    from agentlight_instrumentation.guard import Guarded

    for function in functions:
        with Guarded(f"wrap {function.target}"):
            try:
                code = observe(code, function.qualname, handler_of(function))
                if function.kind != "framework":
                    report("observed", kind=function.kind, target=function.target)
            except NotFound as error:
                if function.kind == "framework":
                    continue  # another release of it
                detail = f"{function.module} has {error}"
                report("function-missing", kind=function.kind, target=function.target, detail=detail)
    return code

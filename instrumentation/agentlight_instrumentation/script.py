"""Reach the code of a script that is run as `python script.py`: it is never imported, so no import hook sees it.

The interpreter asks `sys.path_hooks` whether the script's path is a place to import from (a zip file with a
`__main__`, usually). Claiming it makes runpy ask us for the code of `__main__`; what runpy sets up differently
from a plain script is put back before the script's first line.
"""

from __future__ import annotations

import os
import sys

from agentlight_instrumentation.imports import observed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentlight_instrumentation.settings import Function


def claim(functions: list[Function]) -> None:
    """Watch for the script that one of the functions is in (its file's stem, or `__main__`) and observe them there."""

    def hook(path: str) -> Any:
        stem, extension = os.path.splitext(os.path.basename(path))
        its_own = [function for function in functions if function.module in ("__main__", stem)]
        if extension not in ("", ".py") or not its_own or not os.path.isfile(path):
            raise ImportError(path)
        sys.path_hooks.remove(hook)
        return _Script(path, its_own)

    sys.path_hooks.append(hook)  # last: zip files and folders stay what they are


class _Script:
    """Finder and loader of the one module `__main__`, from a script's source."""

    observes = True  # tells the import hook that the code of this loader needs no second change

    def __init__(self, path: str, functions: list[Function]) -> None:
        self.path = path
        self.functions = functions

    def find_spec(self, name: str, target: Any = None) -> Any:
        if name != "__main__":
            return None
        from importlib.machinery import ModuleSpec

        finder: Any = self
        spec = ModuleSpec(name, finder, origin=self.path)
        spec.has_location = True
        return spec

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        raise ImportError(f"{self.path} is run, not imported")

    def get_code(self, name: str) -> Any:
        from importlib.machinery import SourceFileLoader

        loader = SourceFileLoader(name, self.path)
        code = observed(loader.source_to_code(loader.get_data(self.path), self.path), self.functions)
        sys.path_importer_cache.pop(self.path, None)
        return _calling(lambda names: self._run(code, names, loader))

    def _run(self, code: Any, names: dict[str, Any], loader: Any) -> None:
        names.update(__spec__=None, __loader__=loader, __package__=None, __cached__=None)
        if names["__name__"] == "__main__" and getattr(sys.flags, "safe_path", False):  # -P, Python 3.11
            del sys.path[0]
        elif names["__name__"] == "__main__":
            sys.path[0] = os.path.dirname(os.path.realpath(self.path))
        exec(code, names)

    def is_package(self, name: str) -> bool:
        return False


def _calling(run: Any) -> Any:
    """A module's code that calls `run` with the module's namespace, and leaves no name of ours in it."""
    code = compile("'run'.__call__(globals())", "<agentlight>", "exec")
    return code.replace(co_consts=tuple(run if constant == "run" else constant for constant in code.co_consts))

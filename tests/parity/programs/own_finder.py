"""Kind 2: a finder of the agent's, first on sys.meta_path, makes modules and counts what it is asked for."""

import importlib.abc
import importlib.machinery
import sys

asked = []


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        asked.append(name)
        return importlib.machinery.ModuleSpec(name, self) if name == "made_up" else None

    def exec_module(self, module):
        module.value = 42


sys.meta_path.insert(0, Finder())
import made_up
import llm

print(made_up.value, made_up.__spec__, llm.ask())
print(len(asked) == len(set(asked)), [name for name in asked if "agentlight" not in name][:3])

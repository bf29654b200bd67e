"""Kind 2: the agent's own finder loads httpx in its own way; it is asked once."""

import importlib.machinery
import sys

from llm import ask_httpx

asked = []


class Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        module.marked = True


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "httpx":
            return None
        asked.append(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)
print(ask_httpx(), sys.modules["httpx"].marked, asked, type(sys.modules["httpx"].__loader__))

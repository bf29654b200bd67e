"""An agent that makes each of our functions raise in turn, and prints what it got from its calls meanwhile.

`python faults.py LIBRARY warm|cold`: warm, within one process, after a call that went well; cold, each in a fork of
a process in which nothing of ours has run yet. Prints one JSON line a function: {"function", "with": what the two
calls gave, "lost": how many losses were reported meanwhile, "after": what two calls gave when the function was whole
again}. The calls of function F ask "F False" and "F True": whether they are streamed.
"""

import gc
import json
import os
import sys
import types

from llm import CHAT, body

OURS = ("agentlight_instrumentation", "agentlight_store")


def over_httpx(request):
    import httpx

    if not request.get("stream"):
        return httpx.post(CHAT, json=request).text
    with httpx.stream("POST", CHAT, json=request) as reply:
        return list(reply.iter_lines())


def over_async_httpx(request):
    import asyncio

    import httpx

    async def main():
        async with httpx.AsyncClient() as client:
            if not request.get("stream"):
                return (await client.post(CHAT, json=request)).text
            async with client.stream("POST", CHAT, json=request) as reply:
                return [line async for line in reply.aiter_lines()]

    return asyncio.run(main())


def over_requests(request):
    import requests

    reply = requests.post(CHAT, json=request, stream=bool(request.get("stream")))
    return list(reply.iter_lines()) if request.get("stream") else reply.text


def over_urllib(request):
    import urllib.request

    asked = urllib.request.Request(CHAT, json.dumps(request).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as reply:
        return list(reply) if request.get("stream") else reply.read()


def over_aiohttp(request):
    import asyncio

    import aiohttp

    async def main():
        async with aiohttp.ClientSession() as session, session.post(CHAT, json=request) as reply:
            return [line async for line in reply.content] if request.get("stream") else await reply.text()

    return asyncio.run(main())


def calls(call, name):
    """What a whole and a streamed call give; an error as its type and text."""
    found = []
    for stream in (False, True):
        try:
            found.append(text_of(call(body(f"{name} {stream}", stream=stream))))
        except BaseException as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def is_ours(module):
    return str(module).split(".")[0] in OURS


def functions_called(call):
    """{name: code} of our functions that two calls run."""
    codes = {}

    def note(frame, event, argument):
        if event == "call" and is_ours(frame.f_globals.get("__name__")) and frame.f_code.co_name[0] != "<":
            codes[f"{frame.f_globals['__name__']}:{frame.f_code.co_qualname}"] = frame.f_code

    sys.setprofile(note)
    calls(call, "profiled")
    sys.setprofile(None)
    return codes


def raising(code):
    """A code object with the closure of `code` that does nothing but raise."""
    free = ", ".join(code.co_freevars)
    source = f"def outer():\n {'='.join([*code.co_freevars, '0'])}\n def inner(*args, **kwargs):\n"
    source += f"  {free or '0'}\n  raise RuntimeError('injected')\n return inner"
    names = {}
    exec(source, names)
    return names["outer"]().__code__.replace(co_freevars=code.co_freevars)


def functions_of(names):
    """The living function objects with those names, {name: functions}."""
    found = {}
    for one in gc.get_objects():
        # A function that is wrapped by another of its name: the inner one.
        if isinstance(one, types.FunctionType) and is_ours(one.__module__) and not hasattr(one, "__wrapped__"):
            found.setdefault(f"{one.__module__}:{one.__qualname__}", []).append(one)
    return {name: found[name] for name in sorted(names) if name in found}


def text_of(reply):
    """What an SDK would make of it: whether a field of ours shows through is another question."""
    lines = reply if isinstance(reply, list) else [reply]
    lines = [line if isinstance(line, str) else line.decode() for line in lines]
    found = []
    for line in lines:
        data = line.strip().removeprefix("data: ")
        if data.startswith("{"):
            found += [choice.get("delta", choice.get("message"))["content"] for choice in json.loads(data)["choices"]]
    return "".join(filter(None, found))


def losses():
    with open(os.environ["AGENTLIGHT_REPORT"]) as report:
        return report.read().count('"event": "lost"')


def say(name, before, injected, after):
    lost = losses() - before
    print(json.dumps({"function": name, "with": injected, "lost": lost, "after": after()}), flush=True)


def warm(call):
    say("", losses(), calls(call, "plain"), list)
    for name, functions in functions_of(functions_called(call)).items():
        before, codes = losses(), [function.__code__ for function in functions]
        for function in functions:
            function.__code__ = raising(function.__code__)
        injected = calls(call, name)
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code
        say(name, before, injected, lambda name=name: calls(call, f"after {name}"))


class Breaking:
    """A finder that breaks one function of ours as soon as its module has run."""

    def __init__(self, name):
        self.module, self.qualname = name.split(":")

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.break_in(module)

        spec.loader.exec_module = exec_module
        return spec

    def break_in(self, module):
        for functions in functions_of([f"{self.module}:{self.qualname}"]).values():
            for function in functions:
                function.__code__ = raising(function.__code__)


def cold(call):
    """The list of what to break comes from one fork, which sees everything that a first call runs."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(sorted(functions_called(call))).encode())
        os._exit(0)
    os.wait()
    for name in ["", *json.loads(os.read(read, 1 << 20))]:
        if os.fork() == 0:
            if name:
                breaking = Breaking(name)
                if breaking.module in sys.modules:
                    breaking.break_in(sys.modules[breaking.module])
                else:
                    sys.meta_path.insert(0, breaking)
            say(name, losses(), calls(call, name), list)
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    call = globals()[f"over_{sys.argv[1]}"]
    {"warm": warm, "cold": cold}[sys.argv[2]](call)

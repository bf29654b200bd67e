"""What capture leaves of itself in a process: little at the start, and hooked modules that look untouched."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

HEAVY = (
    "ssl", "asyncio", "threading", "typing", "json", "httpx", "httpx2", "requests", "wrapt", "openai", "lmdb",
    "msgspec", "msgpack", "socket", "inspect",
)  # fmt: skip


@pytest.mark.parametrize("reward", ["", "agent:score"])
def test_the_start_imports_almost_nothing(reward: str, run_agent: RunAgent) -> None:
    """No ssl, no asyncio, no threading, no typing, no json, and no library that we patch or store with."""
    agent = f"import sys\nprint([name for name in {HEAVY} if name in sys.modules])\ndef score(): pass\n"
    run = run_agent(agent, env={"AGENTLIGHT_REWARD": reward} if reward == "" else {})
    assert run.stdout == "[]\n"
    assert len(run.events("started")) == 1


def test_hooked_modules_look_untouched(run_agent: RunAgent) -> None:
    """Loader, spec, source and resources of httpx, httpx2 and requests are those of a run without capture."""
    agent = """
    import importlib, importlib.resources, inspect, json, pickle, sys
    seen = {}
    for name in ("httpx", "httpx2", "requests"):
        module = importlib.import_module(name)
        spec = module.__spec__
        seen[name] = [
            type(module).__name__, type(module.__loader__).__name__, module.__loader__ is spec.loader,
            sorted(vars(module.__loader__)), spec.origin, spec.submodule_search_locations, module.__file__,
            inspect.getsource(module) == open(module.__file__).read(),
            importlib.resources.files(name).joinpath("__init__.py").is_file(),
            module.__loader__.get_code(name).co_filename, type(sys.modules).__name__,
            sorted(key for key in vars(module) if not key.startswith("_")),
        ]
    import httpx, requests, urllib3
    for function in (httpx.Client._send_single_request, urllib3.connectionpool.HTTPConnectionPool.urlopen):
        seen[function.__qualname__] = [inspect.getsource(function), str(inspect.signature(function)),
                                       function.__name__, function.__module__, function.__doc__]
    seen["async"] = [inspect.iscoroutinefunction(httpx.AsyncClient._send_single_request)]
    seen["pickle"] = pickle.loads(pickle.dumps(requests.adapters.HTTPAdapter())).__class__.__name__
    print(json.dumps(seen))
    """
    plain = run_agent(agent, capture=False)
    run = run_agent(agent)
    for name, expected in plain.result.items():
        assert run.result[name] == expected, name
    assert len(run.events("patched")) == 4  # http.client comes first


@pytest.mark.parametrize(("module", "code"), [("httpx", 1), ("requests.help", 0), ("openai", 1)])
def test_hooked_packages_still_run_as_modules(module: str, code: int, run_agent: RunAgent) -> None:
    """`python -m httpx` and the like print what they print and exit as they exit."""
    plain = run_agent("", command=["-m", module], capture=False, code=code)
    run = run_agent("", command=["-m", module], code=code)
    assert (run.stdout, run.stderr) == (plain.stdout, plain.stderr) and run.stdout + run.stderr


def test_a_library_imported_twice_is_patched_once(run_agent: RunAgent, server: FakeServer) -> None:
    """Reloaded, or dropped from sys.modules and imported anew: one record for each request all the same."""
    agent = """
    import importlib, sys
    import httpx, requests, urllib3
    from agentlight_instrumentation import bootstrap
    bootstrap.start()
    def ask():
        for library in (httpx, requests):
            library.post(sys.argv[1] + "/chat/completions", json={"model": "smol", "messages": []})
    ask()
    importlib.reload(httpx), importlib.reload(requests)
    ask()
    for name in [name for name in sys.modules if name.split(".")[0] in ("httpx", "requests")]:
        del sys.modules[name]
    import httpx, requests, urllib3
    ask()
    """
    run = run_agent(agent, server.url)
    assert len(run.spans) == len(server.calls) == 6
    assert all(span.trainable for span in run.spans)


def test_a_client_made_before_the_start_is_captured(run_agent: RunAgent, server: FakeServer, tmp_path) -> None:
    """Libraries and bound methods from before bootstrap (an agent's own sitecustomize, say) are covered."""
    agent = """
    import os, sys
    store = os.environ.pop("LATER")
    import httpx, requests, urllib3
    client, session = httpx.Client(), requests.Session()
    post = client.post
    os.environ["AGENTLIGHT_STORE"] = store
    from agentlight_instrumentation import bootstrap
    bootstrap.start()
    for call in (post, session.post):
        call(sys.argv[1] + "/chat/completions", json={"model": "smol", "messages": []})
    """
    run = run_agent(agent, server.url, env={"LATER": str(tmp_path / "store"), "AGENTLIGHT_STORE": ""})
    assert [span.trainable for span in run.spans] == [True, True]


def test_children_of_every_kind_record_into_the_same_store(run_agent: RunAgent, server: FakeServer) -> None:
    """spawn, forkserver, fork, subprocess and exec: one record each, from as many processes, in one rollout."""
    agent = """
    import multiprocessing, os, subprocess, sys
    import httpx
    def ask(_):
        httpx.post(sys.argv[1] + "/chat/completions", json={"model": "smol", "messages": []})
    if __name__ == "__main__":
        if len(sys.argv) > 2:
            ask(0)
            if sys.argv[2] == "exec":
                os.execv(sys.executable, [sys.executable, *sys.argv[:2], "done"])
        else:
            ask(0)
            for kind in ("spawn", "forkserver", "fork"):
                process = multiprocessing.get_context(kind).Process(target=ask, args=(0,))
                process.start()
                process.join()
            subprocess.run([sys.executable, *sys.argv, "exec"], check=True)
    """
    run = run_agent(agent, server.url, env={"AGENTLIGHT_ROLLOUT_ID": "ef" * 16})
    (rollout,) = run.rollouts
    assert len(rollout.spans) == len(server.calls) == 6  # main, 3 children, subprocess, the same process after exec
    assert len({span.pid for span in rollout.spans}) == 5
    assert all(span.trainable for span in rollout.spans)


def test_every_kind_of_exit_keeps_the_last_call(run_agent: RunAgent, server: FakeServer) -> None:
    """A call that returned is on disk: normal end, sys.exit, os._exit, SIGTERM, SIGKILL, the end of asyncio.run."""
    agent = """
    import asyncio, os, signal, sys
    import httpx
    body = {"model": "smol", "messages": []}
    if sys.argv[2] == "asyncio":
        async def main():
            async with httpx.AsyncClient() as client:
                await client.post(sys.argv[1] + "/chat/completions", json=body)
        asyncio.run(main())
    else:
        httpx.post(sys.argv[1] + "/chat/completions", json=body)
    exec(sys.argv[2].replace("asyncio", ""))
    """
    ends = {"pass": 0, "sys.exit(3)": 3, "os._exit(4)": 4, "asyncio": 0,
            "os.kill(os.getpid(), 15)": -15, "os.kill(os.getpid(), 9)": -9}  # fmt: skip
    for number, (end, code) in enumerate(ends.items(), 1):
        run = run_agent(agent, server.url, end, code=code)
        assert len(run.spans) == number, end
        assert run.spans[-1].trainable, end


def test_an_agent_may_read_its_own_store(run_agent: RunAgent, server: FakeServer) -> None:
    """It opens and closes the store's path between its calls: its records are there, and the next ones arrive."""
    agent = """
    import os, sys
    import httpx
    from agentlight_store import Store
    for number in range(3):
        httpx.post(sys.argv[1] + "/chat/completions", json={"model": "smol", "messages": []})
        with Store.open(os.environ["AGENTLIGHT_STORE"]) as store:
            print([rollout.calls for rollout in store.rollouts()])
    """
    run = run_agent(agent, server.url)
    assert run.stdout == "[1]\n[2]\n[3]\n"
    assert len(run.spans) == 3 and run.events("lost") == []


def test_a_forking_agent_with_busy_threads_ends(run_agent: RunAgent, server: FakeServer) -> None:
    """4 threads call in a loop while the main thread forks 20 children that call once; every call is kept."""
    agent = """
    import os, signal, sys, threading
    import httpx
    stop, counts = threading.Event(), []
    def ask():
        return httpx.post(sys.argv[1] + "/chat/completions", json={"model": "smol", "messages": []}).status_code
    def loop():
        while not stop.is_set():
            counts.append(ask())
    ask()
    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            os._exit(0 if ask() == 200 else 1)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    print(1 + 20 + len(counts))
    """
    run = run_agent(agent, server.url)
    assert len(run.spans) == len(server.calls) == run.result
    assert run.events("lost") == []

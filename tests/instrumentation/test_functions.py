"""--rollout, --role and --tool: any function of the agent's, unchanged, on any thread, task or process."""

from __future__ import annotations

import pytest
from conftest import RunAgent
from fake_server import FakeServer

KINDS = '''
import asyncio, httpx, json, sys

URL = sys.argv[1] + "/chat/completions"

def ask(text):
    body = {"model": "smol", "messages": [{"role": "user", "content": text}]}
    return httpx.post(URL, json=body).json()["choices"][0]["message"]["content"]

def plain(text, *, times=1):
    """The doc."""
    return [ask(text) for _ in range(times)]

async def coroutine(text):
    await asyncio.sleep(0)
    return ask(text)

def generator(text):
    got = yield ask(text)
    yield ask(text + str(got))
    return "end"

async def agenerator(text):
    got = yield ask(text)
    yield ask(text + str(got))

class Agent:
    def method(self, text):
        return ask(text)
    @staticmethod
    def static(text):
        return ask(text)
    @classmethod
    def klass(cls, text):
        return ask(text)

def maker(suffix):
    def closure(text):
        return ask(text + suffix)
    return closure

def drive(steps):
    seen = [next(steps)]
    ask("between")
    try:
        while True:
            seen.append(steps.send(7))
    except StopIteration as end:
        return [*seen, end.value]

async def adrive(steps):
    seen = [await steps.asend(None)]
    ask("between")
    seen.append(await steps.asend(7))
    return [*seen, [one async for one in steps]]
'''
CALLS = {
    "plain": ("plain('a', times=2)", ["a", "a"]),
    "coroutine": ("asyncio.run(coroutine('a'))", ["a"]),
    "generator": ("drive(generator('a'))", ["a", "a7"]),
    "agenerator": ("asyncio.run(adrive(agenerator('a')))", ["a", "a7"]),
    "Agent.method": ("Agent().method('a')", ["a"]),
    "Agent.static": ("Agent.static('a')", ["a"]),
    "Agent.klass": ("Agent.klass('a')", ["a"]),
    "maker.<locals>.closure": ("maker('b')('a')", ["ab"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_of_a_rollout_function_is_a_rollout(name: str, run_agent: RunAgent, server: FakeServer) -> None:
    """Two calls are two rollouts, each with the LLM calls that were made inside it; a call before, between the steps
    of a generator or after is none of theirs; and the agent prints what it prints without us."""
    call, inside = CALLS[name]
    agent = KINDS + f"\nask('before')\nprint(json.dumps([{call}, {call}]))\nask('after')\n"
    plain = run_agent(agent, server.url, capture=False)
    run = run_agent(agent, server.url, env={"AGENTLIGHT_ROLLOUT": f"agent:{name}", "AGENTLIGHT_ROLLOUT_ID": "ab" * 16})
    assert (run.stdout, run.stderr) == (plain.stdout, plain.stderr)
    own = {rollout.rollout_id: [span.messages[0]["content"] for span in rollout.spans] for rollout in run.rollouts}
    outside = own.pop("ab" * 16)
    assert set(outside) <= {"before", "between", "after"} and outside[0] == "before" and outside[-1] == "after"
    assert list(own.values()) == [inside, inside]
    assert [event["id"] for event in run.events("rollout")] == list(own)
    assert {rollout.status for rollout in run.rollouts if rollout.rollout_id in own} == {"ok"}


def test_a_rollout_that_raises_has_failed_and_its_score_may_come_later(run_agent: RunAgent, server: FakeServer) -> None:
    agent = (
        KINDS
        + """
import agentlight
def fails(text):
    ask(text)
    raise ValueError(text)
for text in ("one", "two"):
    try:
        fails(text)
    except ValueError:
        agentlight.emit_reward(0.25)
print("null")
"""
    )
    run = run_agent(agent, server.url, env={"AGENTLIGHT_ROLLOUT": "agent:fails"})
    assert [(rollout.status, rollout.reward, rollout.calls) for rollout in run.rollouts] == [("failed", 0.25, 1)] * 2


def test_roles_nest_and_a_tool_is_an_event(run_agent: RunAgent, server: FakeServer) -> None:
    """The role is the name that was given, else the function's; a tool's arguments, result or error are kept."""
    agent = (
        KINDS
        + """
def planner():
    ask("plan")
    writer()
    ask("again")
def writer():
    ask("write")
    return search("cats", limit=2)
def search(query, limit=10, *more):
    if query == "dogs":
        raise LookupError(query)
    return [query] * limit
planner()
try:
    search("dogs")
except LookupError:
    pass
print("null")
"""
    )
    functions = {"AGENTLIGHT_ROLE": "agent:planner agent:writer=sql_writer", "AGENTLIGHT_TOOL": "agent:search"}
    run = run_agent(agent, server.url, env=functions)
    (rollout,) = run.rollouts
    assert [span.role for span in rollout.spans] == ["planner", "sql_writer", "planner"]
    cats = {"arguments": {"query": "cats", "limit": 2, "more": []}, "result": ["cats", "cats"], "error": None}
    dogs = {"arguments": {"query": "dogs", "limit": 10, "more": []}, "result": None, "error": "LookupError"}
    found = [(event.kind, event.name, event.role, event.content) for event in rollout.events]
    assert found == [("tool", "search", "sql_writer", cats), ("tool", "search", "agent", dogs)]


@pytest.mark.parametrize("how", ["main", "module", "imported early", "imported late"])
def test_a_function_is_found_wherever_the_module_is_run(
    how: str, run_agent: RunAgent, server: FakeServer, tmp_path
) -> None:
    (tmp_path / "work.py").write_text(KINDS + "\nif __name__ == '__main__':\n    plain('x')\n    print('null')\n")
    agent, command, target = {
        "main": ("pass", [str(tmp_path / "work.py")], "__main__:plain"),
        "module": ("pass", ["-m", "work"], "__main__:plain"),
        "imported early": ("from work import plain\nplain('x')", None, "work:plain"),
        "imported late": ("def f():\n    from work import plain as p\n    p('x')\nf()", None, "work:plain"),
    }[how]
    run = run_agent(agent, server.url, command=command, env={"AGENTLIGHT_ROLLOUT": target})
    assert [rollout.calls for rollout in run.rollouts] == [1]
    assert len(run.events("rollout")) == len(run.events("observed")) == 1


CARRIED = (
    KINDS
    + """
import concurrent.futures, multiprocessing, subprocess, threading

def work(number):
    return ask(f"{number} from elsewhere")

def by_thread(number):
    thread = threading.Thread(target=work, args=(number,))
    thread.start()
    thread.join()

def by_pool(number):
    for one in [POOL.submit(work, number) for _ in range(8)]:
        one.result()

def by_subprocess(number):
    code = f"import httpx; httpx.post({URL!r}, json={{'model': 'smol', 'messages': "
    code += f"[{{'role': 'user', 'content': '{number} from elsewhere'}}]}})"
    subprocess.run([sys.executable, "-c", code], check=True)

def by_process(number):
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=work, args=(number,))
        process.start()
        process.join()

async def by_tasks(number):
    async def one():
        await asyncio.sleep(0.001)
        return await asyncio.get_running_loop().run_in_executor(None, work, number)
    asyncio.create_task(one())
    await asyncio.gather(one(), one())
    await asyncio.sleep(0.1)

async def main(function):
    await asyncio.gather(*[function(number) for number in range(3)])

if __name__ == "__main__":
    POOL = concurrent.futures.ThreadPoolExecutor(4)
    function = globals()[sys.argv[2]]
    if sys.argv[2] == "by_tasks":
        asyncio.run(main(function))
    elif sys.argv[2] == "by_pool":
        with concurrent.futures.ThreadPoolExecutor(3) as runners:
            list(runners.map(function, range(3)))
    else:
        for number in range(3):
            function(number)
    print("null")
"""
)


@pytest.mark.parametrize(
    ("how", "calls"), [("by_thread", 1), ("by_pool", 8), ("by_subprocess", 1), ("by_process", 3), ("by_tasks", 3)]
)
def test_a_rollout_follows_its_work(how: str, calls: int, run_agent: RunAgent, server: FakeServer) -> None:
    """Three rollouts, at the same time where they can be: each has its own calls, and none of another's."""
    run = run_agent(CARRIED, server.url, how, env={"AGENTLIGHT_ROLLOUT": f"agent:{how}"})
    texts = [[span.messages[0]["content"] for span in rollout.spans] for rollout in run.rollouts]
    assert sorted(texts) == [[f"{number} from elsewhere"] * calls for number in range(3)]
    assert len(server.calls) == 3 * calls


def test_a_thousand_rollouts_at_once_do_not_mix(run_agent: RunAgent, server: FakeServer) -> None:
    """1,000 asyncio rollouts of two calls each in one seeded process: 2,000 calls, each where it belongs."""
    agent = """
import asyncio, httpx, random, sys
random.seed(1)

async def one(client, number):
    for turn in range(2):
        body = {"model": "smol+words=1", "messages": [{"role": "user", "content": f"{number}"}]}
        await client.post(sys.argv[1] + "/chat/completions", json=body)

async def main():
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=32), timeout=120) as client:
        await asyncio.gather(*[one(client, number) for number in range(1000)])

asyncio.run(main())
"""
    run = run_agent(agent, server.url, env={"AGENTLIGHT_ROLLOUT": "agent:one"}, timeout=120)
    texts = [[span.messages[0]["content"] for span in rollout.spans] for rollout in run.rollouts]
    assert sorted(texts) == sorted([str(number)] * 2 for number in range(1000))


def test_the_public_face_begins_capture_and_rollouts(run_agent: RunAgent, server: FakeServer, tmp_path) -> None:
    """In a process that nobody prepared: from `inject_runtime` on, also for a library that was there before."""
    agent = (
        KINDS
        + f"""
import agentlight
agentlight.emit_reward(1)
with agentlight.rollout("not yet"):
    ask("not yet")
answer = agentlight.inject_runtime(plain, component="writer", store={str(tmp_path / "mine")!r})
answer("by call", times=2)
agentlight.emit_reward(0.5)
with agentlight.rollout(task_id="7") as rollout:
    ask("by with")
    agentlight.emit_observation(role="user", content={{"seen": 3}})
    agentlight.emit_reward({{"a": 0.25, "b": 0.5}})
@agentlight.rollout()
async def decorated():
    return ask("by decorator")
asyncio.run(decorated())
print(json.dumps(rollout.rollout_id))
"""
    )
    run = run_agent(agent, server.url, capture=False, store=tmp_path / "mine")
    by_call, by_with, by_decorator = run.rollouts
    assert [(span.role, span.text) for span in by_call.spans] == [("writer", by_call.spans[0].text)] * 2
    assert (by_call.reward, by_call.status) == (0.5, "ok")
    assert (by_with.rollout_id, by_with.task_id, by_with.reward) == (run.result, "7", 0.75)
    assert [(event.kind, event.role, event.content) for event in by_with.events] == [
        ("observation", "user", {"seen": 3})
    ]
    assert [span.messages[0]["content"] for span in by_decorator.spans] == ["by decorator"]
    assert all(span.trainable for rollout in run.rollouts for span in rollout.spans)

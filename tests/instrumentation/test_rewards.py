"""The reward function named on the command line, wherever it lives and however it is called; and emit_reward."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import RunAgent

MODULE = '''
import functools

def score(x):
    """The doc."""
    return x

def plain(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a + b + c + sum(rest) + d + e + sum(more.values())

async def coroutine(x):
    return x

def decorator(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@decorator
def decorated(x):
    return x

@functools.cache
def cached(result, inner=1, observer=2):
    return result

class Judge:
    def method(self, x):
        return x
    @staticmethod
    def static(x):
        return x
    @classmethod
    def klass(cls, x):
        return x

class Strict(Judge):
    def method(self, __x):
        return super().method(__x) + 0.5

def maker(result, inner):
    observer = 0
    def closure(x):
        nonlocal observer
        observer += 1
        return x + result + inner + observer
    return closure

if maker:
    def either(x):
        return x
else:
    def either(x):
        return -x

def generator(x):
    yield x
'''
CASES = {
    "score": ("m.score(2)", 2.0),
    "plain": ("m.plain(1, 2, 3, 4, d=5, f=6)", 26.0),
    "coroutine": ("asyncio.run(m.coroutine(3))", 3.0),
    "decorated": ("m.decorated(4)", 4.0),
    "cached": ("m.cached(5)", 5.0),
    "Judge.method": ("m.Judge().method(6)", 6.0),
    "Judge.static": ("m.Judge.static(7)", 7.0),
    "Judge.klass": ("m.Judge().klass(8)", 8.0),
    "Strict.method": ("m.Strict().method(9)", 9.5),
    "maker.<locals>.closure": ("m.maker(1, 2)(10)", 14.0),
    "either": ("m.either(11)", 11.0),
}


@pytest.mark.parametrize("name", CASES)
def test_any_function_of_an_imported_module_is_observed(name: str, run_agent: RunAgent, tmp_path) -> None:
    """Whatever its kind, its value arrives at the agent and in the store."""
    (tmp_path / "judge.py").write_text(MODULE)
    call, expected = CASES[name]
    run = run_agent(f"import asyncio, judge as m\nprint({call})", env={"AGENTLIGHT_REWARD": f"judge:{name}"})
    assert float(run.stdout) == expected
    assert run.rewards == {"reward": expected}
    assert len(run.events("reward-called")) == 1


def test_names_bound_early_are_covered_and_nothing_shows(run_agent: RunAgent, tmp_path) -> None:
    """`from m import f`: recorded; signature, name, doc, defaults, pickle, source and traceback are the same."""
    (tmp_path / "judge.py").write_text(MODULE + "\ndef fails(x):\n    return 1 / x\n")
    agent = """
    import inspect, pickle, json, sys, traceback
    from judge import score, plain, fails
    import judge
    def look(f):
        return [str(inspect.signature(f)), f.__qualname__, f.__doc__, repr(f.__defaults__), repr(f.__kwdefaults__),
                f.__module__, pickle.loads(pickle.dumps(f)) is f, inspect.getsource(f), f.__code__.co_filename,
                f.__code__.co_firstlineno, f.__code__.co_name, sorted(vars(judge))]
    seen = [look(score), look(plain), score(1)]
    try:
        fails(0)
    except ZeroDivisionError:
        lines = traceback.format_exc().splitlines()
        seen.append([line for line in lines if "1 / x" in line or "judge.py" in line][-2:])
        seen.append(sum("judge.py" in line for line in lines) <= 2)
    print(json.dumps(seen))
    """
    plain = run_agent(agent, capture=False)
    for name in ("score", "plain", "fails"):
        run = run_agent(agent, env={"AGENTLIGHT_REWARD": f"judge:{name}"})
        assert run.result == plain.result
        assert len(run.events("reward-called")) == (name == "score")


@pytest.mark.parametrize("target", ["agent:score", "__main__:score"])
def test_a_function_of_the_script_itself_is_observed(target: str, run_agent: RunAgent) -> None:
    """`python agent.py`: by the file's stem or as __main__; the script's namespace is as ever."""
    agent = '''
    """The agent's doc."""
    import json, sys
    print(json.dumps({key: repr(value) for key, value in sorted(globals().items())}))
    print(json.dumps([sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals()]))
    def score(x, *, y=2):
        return {"syntax": x, "rows": y}
    if __name__ == "__main__":
        score(0.25)
        print(json.dumps(score.__module__))
    '''
    plain = run_agent(agent, "argument", capture=False)
    run = run_agent(agent, "argument", env={"AGENTLIGHT_REWARD": target})
    same = [line.replace(str(plain.store.parent), "") for line in plain.stdout.splitlines()]
    seen = [line.replace(str(run.store.parent), "") for line in run.stdout.splitlines()]
    assert {**json.loads(seen[0]), "__loader__": 0} == {**json.loads(same[0]), "__loader__": 0}
    assert seen[1:] == same[1:]
    assert run.rewards == {"syntax": 0.25, "rows": 2.0, "reward": 2.25}
    assert run.events("function-missing") == []


@pytest.mark.parametrize("option", ["-P", "-m", "-O", "-u"])
def test_the_interpreters_options_mean_what_they_meant(option: str, run_agent: RunAgent, tmp_path) -> None:
    """-P leaves the script's folder off the path; -m runs the module, whose function is observed."""
    agent = (
        "import sys, json\nprint(json.dumps([sys.path[0] == sys.argv[1], __name__]))\ndef score(): return 1\nscore()\n"
    )
    command = [option, "agent" if option == "-m" else str(tmp_path / "agent.py"), str(tmp_path)]
    plain = run_agent(agent, command=command, capture=False, env={"PYTHONPATH": ""})
    for target in ("agent:score",) if option == "-m" else ("agent:score", "__main__:score"):
        run = run_agent(agent, command=command, env={"AGENTLIGHT_REWARD": target})
        assert run.result == plain.result
        assert len(run.events("reward-called")) == 1, target
    if option == "-P":
        assert plain.result[0] is False


def test_a_script_that_fails_says_where(run_agent: RunAgent) -> None:
    """The traceback names the script's own lines, in the reward function and outside."""
    agent = "def score(x):\n    y = x\n    return 1 / y\n\n\nscore(1)\nscore(0)\n"
    plain = run_agent(agent, capture=False, code=1)
    run = run_agent(agent, env={"AGENTLIGHT_REWARD": "agent:score"}, code=1)
    own = [line for line in plain.stderr.splitlines() if "line" in line or "/ y" in line or "Error" in line]
    assert own[-1] == "ZeroDivisionError: division by zero"
    lines = run.stderr.splitlines()
    assert all(line in lines for line in own)
    assert run.rewards == {"reward": 1.0}


def test_spawned_children_run_the_script_again(run_agent: RunAgent) -> None:
    """multiprocessing spawn and forkserver re-import the main script; its function is observed in the children too."""
    agent = """
    import multiprocessing, sys
    def score(x):
        return x
    if __name__ == "__main__":
        for kind in ("spawn", "forkserver", "fork"):
            with multiprocessing.get_context(kind).Pool(1) as pool:
                print(pool.map(score, [1.0, 2.0]))
    """
    plain = run_agent(agent, capture=False)
    run = run_agent(agent, env={"AGENTLIGHT_REWARD": "agent:score", "AGENTLIGHT_ROLLOUT_ID": "ab" * 16})
    assert run.stdout == plain.stdout and run.stderr == plain.stderr
    assert run.rewards == {"reward": 2.0}
    assert len(run.events("reward-called")) == 6


def test_a_name_that_is_not_there_is_said(run_agent: RunAgent, tmp_path) -> None:
    """A missing function: the agent runs on, the report names what there is."""
    (tmp_path / "judge.py").write_text(MODULE)
    run = run_agent("import judge; print(judge.score(1))", env={"AGENTLIGHT_REWARD": "judge:nosuch"})
    assert run.stdout == "1\n"
    (event,) = run.events("function-missing")
    assert "it defines: score, plain" in event["detail"]


def test_every_value_is_recorded_or_said_to_be_lost(run_agent: RunAgent) -> None:
    """Numbers and mappings of numbers are scores, None is unscored, the rest is lost, said once, and raises nothing."""
    agent = """
    import fractions
    import agentlight
    agentlight.emit_reward(0.5)
    agentlight.emit_reward(True, name="bool")
    agentlight.emit_reward(fractions.Fraction(1, 4), name="fraction")
    agentlight.emit_reward({"a": 1, "b": 2.5}, name="parts")
    agentlight.emit_reward({"own": 1, "other": 2}, name="own")
    agentlight.emit_reward(None, name="none")
    agentlight.emit_reward(float("nan"), name="nan")
    for wrong in ("0.5", b"1", [1], {"part": "text"}, object()):
        agentlight.emit_reward(wrong, name="wrong")
    """
    run = run_agent(agent, strict=False, env={"AGENTLIGHT_ROLLOUT_ID": "cd" * 16})
    nan = run.rewards.pop("nan")
    assert nan != nan
    assert {name: value for name, value in run.rewards.items() if name != "nan"} == {
        "reward": 0.5, "bool": 1.0, "fraction": 0.25, "a": 1.0, "b": 2.5, "parts": 3.5, "own": 1.0, "other": 2.0,
    }  # fmt: skip
    assert [rollout.rollout_id for rollout in run.rollouts] == ["cd" * 16]
    assert len(run.events("lost")) == 5
    assert all("'wrong'" in event["reason"] for event in run.events("lost"))


def test_emit_reward_is_nothing_outside_the_launcher(run_agent: RunAgent) -> None:
    """Without a store there is nowhere to record: no error, no file, no import of the store."""
    agent = """
    import sys, agentlight
    agentlight.emit_reward(1)
    print(sorted(name for name in sys.modules if name.startswith(("lmdb", "agentlight_store"))))
    """
    assert run_agent(agent, capture=False).stdout == "[]\n"


def test_recursion_counts_the_outermost_value(run_agent: RunAgent) -> None:
    """Each call is observed; the last to return is the outermost, and the last value counts."""
    agent = "def score(n):\n    return n and n + score(n - 1)\nscore(3)\n"
    assert run_agent(agent, env={"AGENTLIGHT_REWARD": "agent:score"}).rewards == {"reward": 6.0}


def test_the_generic_form_is_found(run_agent: RunAgent) -> None:
    """`def score[T](x: T)` of Python 3.12 is a function named score like any other."""
    if sys.version_info < (3, 12):
        pytest.skip("a syntax of Python 3.12")
    agent = "def score[T](x: T) -> T:\n    return x\nscore(3)\n"
    assert run_agent(agent, env={"AGENTLIGHT_REWARD": "agent:score"}).rewards == {"reward": 3.0}

"""Kind 9: pytest runs tests that ask, one of which fails: its rewritten assertion, captured output and warnings."""

# run: python -m pytest -q -p no:cacheprovider -W error --no-header --durations=0 --durations-min=100 {program}
import pytest
from llm import ask, ask_httpx


def test_passes(capsys):
    print(ask("in a test"))
    assert capsys.readouterr().out


def test_fails():
    reply = ask_httpx("in a failing test")
    assert reply == "something else"


def test_mocked(monkeypatch):
    import httpx

    monkeypatch.setattr(httpx, "post", lambda *args, **kwargs: pytest.fail("mocked"))
    ask_httpx()

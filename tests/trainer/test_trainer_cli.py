"""The command: what it prints, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rollouts import span, write_rollout

from agentlight_store import Store
from agentlight_trainer.cli import main
from agentlight_trainer.config import parse, parser


def test_help_fits_one_screen():
    lines = parser().format_help().splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 110


def test_a_misspelt_or_shortened_flag_is_an_error(capsys: pytest.CaptureFixture[str]):
    for flag in ("--learningrate", "--learn"):
        with pytest.raises(SystemExit) as stopped:
            parse(["store", flag, "1e-4"])
        assert stopped.value.code == 2
        assert flag in capsys.readouterr().err


def test_flags_arrive_with_their_types():
    config = parse(["a", "b", "--kl", "0.1", "--full", "--rollouts-per-step", "3", "--model", "m"])
    assert (config.stores, config.kl, config.full, config.rollouts_per_step) == (("a", "b"), 0.1, True, 3)
    assert config.learning_rate_used == 5e-5


def test_help_imports_no_torch():
    code = "import sys, agentlight_trainer.cli as c; c.parse(['s']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_last_line_says_what_came_out(
    sampled_store: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = sampled_store()
    out = tmp_path / "out"
    assert main([str(store), "--output", str(out), "--dtype", "float32", "--epochs", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("agentlight-train: 2 steps on 12 rollouts (3 groups with signal), reward 0.")
    assert last.endswith(f"-> {out}/adapter, report {out}/report.html")
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "mean |log ratio|" in page
    assert "http" not in page.replace("http-equiv", "")  # needs nothing from elsewhere


def test_nothing_usable_is_one_error_with_every_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No ids, no reward, a failed call, and equal rewards: one each, and two rollouts of the last kind."""
    path = tmp_path / "store"
    write_rollout(path, [span([1], [2], prompt_ids=None)], 1.0)
    write_rollout(path, [span([1], [2])], None)
    write_rollout(path, [span([1], [2], status="error")], 1.0)
    for _ in range(2):
        write_rollout(path, [span([1], [2])], 0.5, task_id="same")
    assert main([str(path), "--output", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for part in (
        "2 no usable call",
        "1 unscored",
        "2 in a group with equal rewards",
        "1 no token ids",
        "1 the call failed",
    ):
        assert part in said


def test_an_empty_store_and_a_missing_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    Store.open(tmp_path / "empty", create=True)
    assert main([str(tmp_path / "empty")]) == 1
    assert "no rollouts in" in capsys.readouterr().err
    assert main([str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_named(
    sampled_store: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = sampled_store(tasks=2)
    assert main([str(store), "--model", str(tmp_path / "nowhere")]) == 2
    assert "--model DIR" in capsys.readouterr().err


def test_settings_come_from_a_file_under_their_known_names(tmp_path: Path):
    """A mapping of roles, a list, a switch and a nested name; a flag wins."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "credit_assignment: discount\ncredit_window: 5\nagent_roles: {planner: 0.85, executor: 1.0}\n"
        "component: [planner, executor]\nmax_trajectory_length: 20\nreward_normalizer: 0.8\n"
        "debug_trace: true\nmode: dapo\n"
        "sampling: {base_rate: 0.3}\nlearning_rate: 0.0003\n"
    )
    config = parse(["store", "--config", str(path), "--learning-rate", "0.001"])
    assert (config.credit, config.credit_window, config.max_turns, config.reward_scale) == ("discount", 5, 20, 0.8)
    assert config.role_gamma == ("planner=0.85", "executor=1.0")
    assert config.component == ("planner", "executor")
    assert config.debug_trace and config.objective == "dapo" and config.learning_rate == 0.001


def test_every_flag_is_in_the_long_help(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        parse(["--help-all"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--credit-window", "--cispo-cap", "--off-policy-limit", "--replay", "--log-to"):
        assert flag in text


def test_no_store_is_one_line(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        parse(["--epochs", "1"])
    assert stopped.value.code == 2
    assert "no STORE" in capsys.readouterr().err


def test_the_choices_of_the_flags_are_the_tables():
    """config.py imports no torch, so it repeats the names."""
    from dataclasses import fields

    from agentlight_trainer.advantages import ADVANTAGES
    from agentlight_trainer.aggregations import AGGREGATIONS
    from agentlight_trainer.config import TrainConfig
    from agentlight_trainer.corrections import CORRECTIONS
    from agentlight_trainer.credit import CREDITS
    from agentlight_trainer.losses import TERMS
    from agentlight_trainer.objectives import OBJECTIVES

    choices = {setting.name: set(setting.metadata.get("choices", ())) for setting in fields(TrainConfig)}
    assert choices["objective"] == set(OBJECTIVES)
    assert choices["advantage"] == set(ADVANTAGES)
    assert choices["aggregation"] == set(AGGREGATIONS)
    assert choices["correction"] == set(CORRECTIONS)
    assert choices["credit"] == set(CREDITS)
    assert {objective.rule.term for objective in OBJECTIVES.values()} == set(TERMS)

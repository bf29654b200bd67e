"""One self-contained report.html of a run; reads what the run measured and measures nothing."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from agentlight_trainer import plots
from agentlight_trainer.advantages import Group
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.credit import turn_advantages
from agentlight_trainer.dataset import Dataset
from agentlight_trainer.preflight import Preflight
from agentlight_trainer.progress import GAP_COLUMNS, clock, gap_rows, preflight_lines
from agentlight_trainer.trajectory import Sample

SHOWN_TOKENS = 1500  # of one sample: the end is where the sampled tokens are

# What is plotted over the steps: the metric, its title, and how a value is written.
CURVES = (
    ("reward", "mean reward of the step's rollouts", "{:.3g}"),
    ("loss", "loss", "{:.3g}"),
    ("validation_loss", "loss on held-out tasks", "{:.3g}"),
    ("kl", "KL to the start", "{:.3g}"),
    ("masked", "share of tokens that the correction masks", "{:.1%}"),
    ("clip_fraction", "share of tokens that hit the clip", "{:.1%}"),
    ("ratio", "mean importance ratio", "{:.4g}"),
    ("gradient_norm", "gradient norm before clipping", "{:.3g}"),
    ("tokens_per_second", "tokens a second", "{:,.0f}"),
)


def write_report(
    path: Path, config: TrainConfig, before: Preflight, metrics: Sequence[dict[str, Any]], served: str
) -> Path:
    """Write the page; it needs no other file and no network."""
    data = before.dataset
    page = Environment(loader=PackageLoader("agentlight_trainer", "templates"), autoescape=select_autoescape())
    text = page.get_template("report.html").render(
        cards=_cards(before, metrics),
        facts=preflight_lines(before),
        gap_columns=GAP_COLUMNS,
        gaps=gap_rows(before),
        warnings=before.warnings,
        served=served,
        charts=_charts(before, metrics),
        groups=sorted(data.groups, key=lambda group: group.key),
        examples=_examples(before),
        settings=[(name, value) for name, value in vars(config).items() if value not in (None, False, ())],
    )
    path.write_text(text)
    return path


def write_rounds(path: Path, rounds: Sequence[Any]) -> Path:
    """The page over all rounds; each round has a report of its own below it."""
    page = Environment(loader=PackageLoader("agentlight_trainer", "templates"), autoescape=select_autoescape())
    measured = [one.measured for one in rounds if one.measured is not None]
    rewards = [one.reward for one in rounds if one.reward is not None]
    charts = [
        ("mean reward of --evaluate: before, and after each round", plots.line_chart(measured)),
        ("mean reward of the rollouts of each round", plots.line_chart(rewards)),
    ]
    first, last = rounds[0].by_task, rounds[-1].by_task
    tasks = [(task, first[task], last[task]) for task in sorted(first) if task in last and len(measured) > 1]
    shown = [(title, Markup(svg)) for title, svg in charts if svg]
    path.write_text(page.get_template("rounds.html").render(rounds=rounds, charts=shown, tasks=tasks))
    return path


def _cards(before: Preflight, metrics: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    scored, data = before.dataset.scored, before.dataset
    compared = [gap for gap in before.gaps if not math.isnan(gap.mean)]
    tokens = sum(gap.tokens for gap in compared)
    mean = sum(gap.mean * gap.tokens for gap in compared) / tokens if tokens else math.nan
    return [
        ("optimizer steps", str(len(metrics))),
        ("rollouts", f"{len(data.rewards):,}"),
        ("groups with signal", f"{len(data.with_signal)} of {len(data.groups)}"),
        ("mean reward", f"{sum(scored) / len(scored):.3f}"),
        ("mean |log ratio| before", f"{mean:.4f}" if tokens else "unknown"),
        ("shared by the prefix tree", f"{before.dedup:.1f}x"),
        ("time in training", clock(sum(line["seconds"] for line in metrics))),
    ]


def _charts(before: Preflight, metrics: Sequence[dict[str, Any]]) -> list[tuple[str, Markup]]:
    made = [
        (title, plots.line_chart([line[name] for line in metrics if name in line], form))
        for name, title, form in CURVES
        if any(name in line for line in metrics)
    ]
    data = before.dataset
    advantages = [value for group in data.with_signal for value in group.advantages.values()]
    made.append(("rewards of all scored rollouts", plots.histogram(data.scored)))
    made.append(("advantages in groups with signal", plots.histogram(advantages)))
    made.append(("log-ratio of start to behaviour, before step 1", plots.histogram(before.log_ratios.tolist())))
    by_turn = credit_by_turn(data)
    if len(by_turn) > 1:
        made.append(("mean |advantage| by turn", plots.line_chart(by_turn, "{:.2f}")))
    return [(title, Markup(svg)) for title, svg in made if svg]  # made of numbers only


def credit_by_turn(data: Dataset) -> list[float]:
    """Mean |advantage| of the first turn, the second, ..., over the groups with signal."""
    sums, counts = defaultdict[int, float](float), Counter[int]()
    for group in data.with_signal:
        for (_, number), value in turn_advantages(group, data.credit).items():
            sums[number] += abs(value)
            counts[number] += 1
    return [sums[number] / counts[number] for number in sorted(counts)]


def _examples(before: Preflight) -> list[dict[str, Any]]:
    """The best and the worst rollout of the group in which they differ most."""
    group = max(before.dataset.with_signal, key=lambda group: max(group.rewards.values()) - min(group.rewards.values()))
    by_reward = sorted(group.rewards, key=group.rewards.__getitem__)
    decode = _decoder(before.model)
    return [
        _example("best", group, by_reward[-1], decode),
        _example("worst", group, by_reward[0], decode),
    ]


def _example(title: str, group: Group, rollout: str, decode: Callable[[list[int]], str]) -> dict[str, Any]:
    samples = [sample for sample in group.samples if sample.rollout_id == rollout]
    return {
        "title": title,
        "task": group.key,
        "rollout": rollout,
        "reward": group.rewards[rollout],
        "advantage": group.advantages[rollout],
        "samples": [_tokens(sample, decode) for sample in samples],
    }


def _tokens(sample: Sample, decode: Callable[[list[int]], str]) -> list[dict[str, Any]]:
    """Context in runs, sampled tokens one by one, each with the log-prob that the server gave."""
    pieces: list[dict[str, Any]] = []
    start = max(0, len(sample.ids) - SHOWN_TOKENS)
    if start:
        pieces.append({"text": f"[{start:,} tokens earlier] ", "trained": False})
    run: list[int] = []
    for place in range(start, len(sample.ids)):
        if not sample.loss_mask[place]:
            run.append(int(sample.ids[place]))
            continue
        if run:
            pieces.append({"text": decode(run), "trained": False})
            run = []
        logprob = float(sample.behaviour_logprobs[place])
        pieces.append(
            {
                "text": decode([int(sample.ids[place])]),
                "trained": True,
                "logprob": "unknown" if math.isnan(logprob) else f"{logprob:.3f}",
            }
        )
    if run:
        pieces.append({"text": decode(run), "trained": False})
    return pieces


def _decoder(model: str) -> Callable[[list[int]], str]:
    """Ids as text with the model's tokenizer, as numbers where it has none."""
    with contextlib.suppress(OSError, ValueError, KeyError, ImportError):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        return lambda ids: str(tokenizer.decode(ids))
    return lambda ids: "".join(f"{number} " for number in ids)

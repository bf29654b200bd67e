"""What a person sees while the trainer works: live bars on a terminal, plain lines elsewhere; all on stderr."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from agentlight_trainer import ranks
from agentlight_trainer.preflight import Preflight

console = Console(stderr=True, highlight=False, quiet=not ranks.is_first())
if not console.is_terminal:
    console.width = 140  # a log file has no edge at which to fold


def say(text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, soft_wrap=True)


@contextmanager
def bar(title: str, total: int):
    """A bar on a terminal, nothing elsewhere; yields advance(amount, note)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)

        def advance(amount: int = 1, note: str | None = None) -> None:
            progress.update(task, advance=amount, description=note or title)

        yield advance


def step_line(metrics: dict[str, Any], steps: int, seconds_left: float) -> str:
    return (
        f"step {metrics['step']:>3}/{steps}  loss {metrics['loss']:+.4f}  reward {metrics['reward']:.3f}  "
        f"clipped {metrics['clip_fraction']:.1%}  ratio {metrics['ratio']:.3f}  "
        f"{metrics['tokens_per_second']:,.0f} tokens/s  {clock(seconds_left)} left"
    )


def sparkline(values: list[float], bins: int = 10) -> str:
    """A histogram in one line, from the least to the largest value."""
    low, high = min(values), max(values)
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / ((high - low) or 1) * bins))] += 1
    bars = "".join(" ▁▂▃▄▅▆▇█"[-(-count * 8 // max(counts))] for count in counts)
    return f"{low:.2g} {bars} {high:.2g}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def preflight_lines(report: Preflight) -> list[tuple[str, str]]:
    """The facts of the pre-flight, a name and a value each."""
    data = report.dataset
    trajectories = data.trajectories
    states = {state: 0 for state in ("signal", "equal rewards", "one scored rollout", "unscored")}
    for group in data.groups:
        states[group.state] += 1
    scored = data.scored
    known, tokens = sum(gap.known for gap in report.gaps), sum(gap.tokens for gap in report.gaps)
    lines = [
        ("model", report.model),
        ("adapter", report.adapter or "new"),
        ("computed as", f"{report.dtype}, {report.packing}"),
        ("rollouts", f"{len(data.rewards)}, {sum(data.left_out.values())} of them left out"),
        *((f"  left out: {reason}", str(number)) for reason, number in data.left_out.most_common()),
        ("calls", f"{trajectories.used} of {trajectories.calls} used"),
        *((f"  dropped: {reason}", str(number)) for reason, number in trajectories.dropped.most_common()),
        ("samples", str(len(trajectories.samples))),
        *((f"  {reason}", str(number)) for reason, number in data.cuts.most_common()),
        *((f"  new sample: {reason}", str(number)) for reason, number in trajectories.breaks.most_common()),
        ("groups", ", ".join(f"{number} {state}" for state, number in states.items() if number)),
        (
            "mean reward",
            f"{sum(scored) / len(scored):.3f} over {len(scored)} scored rollouts  {sparkline(scored)}"
            if scored
            else "-",
        ),
        ("credit variance", f"{report.credit_variance:.3f}, of the advantages of a rollout's turns"),
        ("trained tokens", f"{report.trained_tokens:,}, {known / max(1, tokens):.1%} with usable log-probs"),
        ("forward tokens", f"{report.computed_tokens:,} for {report.tokens:,} ({report.dedup:.1f}x shared)"),
        ("steps an epoch", str(report.steps)),
        ("memory", f"{report.memory / 2**30:.1f} GiB at most so far"),
        ("expected time", f"{clock(report.seconds)}, by how long scoring the rollouts took"),
    ]
    return lines


GAP_COLUMNS = ("policy version", "sampling", "tokens", "mean |log ratio|", "max", "ESS", "outside clip", "KL")


def gap_rows(report: Preflight) -> list[tuple[str, ...]]:
    return [
        (
            gap.version,
            gap.setting + (" (raw log-probs)" if gap.raw else ""),
            f"{gap.tokens:,}",
            *(
                ("-",) * 5
                if gap.mean != gap.mean
                else (
                    f"{gap.mean:.4f}",
                    f"{gap.largest:.2f}",
                    f"{gap.ess:.1%}",
                    f"{gap.outside_clip:.1%}",
                    f"{gap.kl:.4f}",
                )
            ),
        )
        for gap in report.gaps
    ]


def show_preflight(report: Preflight) -> None:
    facts = Table.grid(padding=(0, 2))
    for name, value in preflight_lines(report):
        facts.add_row(f"[dim]{name}[/]" if name.startswith(" ") else f"[bold]{name}[/]", value)
    console.print(facts)
    gaps = Table(*GAP_COLUMNS, box=None, header_style="bold cyan", padding=(0, 1))
    for row in gap_rows(report):
        gaps.add_row(*row)
    console.print(gaps)
    for warning in report.warnings:
        say(f"warning: {warning}", style="bold yellow")

"""What is known before step 1: how far the captured log-probs are from the trainer's own, and whether to go on."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from agentlight_trainer import ranks
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.credit import turn_advantages
from agentlight_trainer.dataset import Dataset
from agentlight_trainer.objectives import objective
from agentlight_trainer.packing import Pack
from agentlight_trainer.policy import Policy
from agentlight_trainer.steps import Step

SUSPICIOUS = 0.1  # mean |log ratio|: bf16 against bf16 stays below 0.03
BACKWARD = 3.0  # a training pass takes about so many times a scoring one
FEW_EFFECTIVE = 0.3  # share of effective samples below which the weights of a few rule


@dataclass
class Gap:
    """Captured against recomputed log-probs, over the tokens of one policy version and sampling setting."""

    version: str
    setting: str
    tokens: int
    known: int
    raw: bool  # the server gave log-probs at temperature 1
    mean: float = float("nan")  # of |log ratio|
    largest: float = float("nan")
    ess: float = float("nan")  # effective sample size, as a share
    outside_clip: float = float("nan")
    kl: float = float("nan")


@dataclass
class Measured:
    """What scoring every pack has told."""

    gaps: list[Gap]
    log_ratios: np.ndarray  # of all tokens whose ratio is known
    seconds: float


@dataclass
class Preflight:
    """The figures of one run before its first step."""

    model: str
    adapter: str | None
    dtype: str
    packing: str
    dataset: Dataset
    steps: int  # an epoch
    gaps: list[Gap]
    tokens: int
    trained_tokens: int
    computed_tokens: int
    log_ratios: np.ndarray
    seconds: float  # that training is expected to take
    credit_variance: float = 0.0  # mean over rollouts, of the advantages of their turns
    memory: int = 0  # bytes, the most so far
    warnings: list[str] = field(default_factory=list)
    refusal: str | None = None

    @property
    def dedup(self) -> float:
        """How many times fewer tokens the tree computes than rows would."""
        return self.tokens / max(1, self.computed_tokens)


def peak_memory() -> int:
    """Bytes that this process has held at most, on its device."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def credit_variance(data: Dataset) -> float:
    """Mean over the rollouts of groups with signal, of the variance of their turns' advantages."""
    each: dict[tuple[str, str], list[float]] = {}
    for group in data.with_signal:
        for (rollout, _), advantage in turn_advantages(group, data.credit).items():
            each.setdefault((group.role, rollout), []).append(advantage)
    return float(np.mean([np.var(values) for values in each.values()])) if each else 0.0


def measure(policy: Policy, steps: Sequence[Step], config: TrainConfig, progress: Callable[[int], None]) -> Measured:
    """Score every pack with the weights at the start, keep that as the anchor, and compare with what was captured.

    Where the server turns out to have given log-probs of the untempered distribution, those of the sampled
    one are not known: they become NaN in the packs.
    """
    rows: dict[tuple[str, str], list[tuple[Pack, np.ndarray, np.ndarray]]] = {}
    began, packs = time.monotonic(), [pack for step in steps for pack in step.packs]
    scored = []
    for pack in ranks.mine(packs):
        scored.append(policy.score(pack))
        progress(pack.tokens)
    for pack, (tempered_T, raw_T) in zip(packs, ranks.gathered(scored), strict=True):
        pack.anchor_logprobs_T = tempered_T
        for key, where in _by_setting(pack).items():
            rows.setdefault(key, []).append((pack, where, raw_T.numpy()[where]))
    rule = objective(config).rule
    bounds = (1 - rule.clip_low, 1 + rule.clip_high)
    gaps = [_gap(key, parts, bounds) for key, parts in sorted(rows.items())]
    distances = [_anchor(pack) - pack.behaviour_logprobs_T.numpy() for pack in packs]
    log_ratios = np.concatenate(distances)
    return Measured(gaps, log_ratios[np.isfinite(log_ratios)], time.monotonic() - began)


def _by_setting(pack: Pack) -> dict[tuple[str, str], np.ndarray]:
    """The entries of the pack's T by policy version and sampling setting."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    owners = pack.samples_T.numpy()
    for number, sample in enumerate(pack.samples):
        mine = np.flatnonzero(owners == number)
        for turn in sample.turns:
            places = pack.places_T[mine]
            inside = mine[(places >= turn.start) & (places < turn.stop)]
            found.setdefault((turn.version, turn.setting), []).append(inside)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _gap(key: tuple[str, str], parts: list[tuple[Pack, np.ndarray, np.ndarray]], bounds: tuple[float, float]) -> Gap:
    behaviour = np.concatenate([pack.behaviour_logprobs_T.numpy()[where] for pack, where, _ in parts])
    tempered = np.concatenate([_anchor(pack)[where] for pack, where, _ in parts])
    raw = np.concatenate([part for _, _, part in parts])
    known = np.isfinite(behaviour)
    behaviour, tempered, raw = (values[known].astype(np.float64) for values in (behaviour, tempered, raw))
    gap = Gap(*key, tokens=len(known), known=int(known.sum()), raw=False)
    if not gap.known:
        return gap
    gap.raw = bool(np.abs(raw - behaviour).mean() < np.abs(tempered - behaviour).mean())
    log_ratio = (raw if gap.raw else tempered) - behaviour
    ratio = np.exp(log_ratio.clip(-20, 20))
    gap.mean, gap.largest = float(np.abs(log_ratio).mean()), float(np.abs(log_ratio).max())
    gap.ess = float(ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum()))
    gap.outside_clip = float(((ratio < bounds[0]) | (ratio > bounds[1])).mean())
    gap.kl = float((ratio - 1 - log_ratio).mean())
    if gap.raw:
        for pack, where, _ in parts:
            pack.behaviour_logprobs_T[torch.from_numpy(where)] = torch.nan
        gap.known = 0
    return gap


def _anchor(pack: Pack) -> np.ndarray:
    assert pack.anchor_logprobs_T is not None, "the pack was not scored"
    return pack.anchor_logprobs_T.numpy()


def judge(report: Preflight, config: TrainConfig) -> None:
    """Fill in the warnings and, if the figures forbid training, the refusal."""
    warnings = report.warnings
    unknown: Counter[str] = report.dataset.trajectories.unknown
    for reason, tokens in unknown.most_common():
        warnings.append(f"{tokens:,} sampled tokens have an unknown ratio, taken as 1: {reason}")
    raw = sum(gap.tokens for gap in report.gaps if gap.raw)
    if raw:
        warnings.append(
            f"{raw:,} sampled tokens have log-probs at temperature 1 but were sampled at another: their ratio is "
            "taken as 1; start vLLM with --logprobs-mode processed_logprobs"
        )
    unset = sum(gap.tokens for gap in report.gaps if "unset" in gap.setting)
    if unset:
        warnings.append(f"{unset:,} sampled tokens come from calls whose temperature is not known, taken as 1")
    warnings += [f"{number:,} {reason}" for reason, number in report.dataset.cuts.most_common()]
    for gap in report.gaps:
        if gap.ess < FEW_EFFECTIVE:
            warnings.append(f"{gap.version} ({gap.setting}): only {gap.ess:.0%} of the tokens count effectively")
        if gap.mean > SUSPICIOUS:
            warnings.append(
                f"{gap.version} ({gap.setting}): mean |log ratio| {gap.mean:.3f}, where the same weights give less "
                f"than {SUSPICIOUS}: the calls were sampled from other weights, or with settings that were not recorded"
            )
    compared = [gap for gap in report.gaps if gap.mean == gap.mean]
    tokens = sum(gap.tokens for gap in compared)
    overall = sum(gap.mean * gap.tokens for gap in compared) / max(1, tokens)
    limit = config.max_log_ratio
    far = sorted({gap.version for gap in compared if gap.mean > limit})
    weights = f"{report.model} with {report.adapter or 'a new adapter'}"
    if config.force or not far:
        return
    if overall > limit:
        report.refusal = (
            f"mean |log ratio| is {overall:.2f}, over {limit:g}: {weights} is not what sampled these rollouts "
            "(--model and --adapter name others, --max-log-ratio allows more, --force trains all the same)"
        )
    else:
        report.refusal = (
            f"mean |log ratio| of the rollouts of {', '.join(far)} is over {limit:g}: they were sampled by other "
            f"weights than {weights} (train on a store without them; --max-log-ratio allows more, --force trains)"
        )

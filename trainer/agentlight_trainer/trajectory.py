"""A rollout's spans -> the samples to train on, by token ids only; touches no disk and re-encodes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from agentlight_store import Choice, Rollout, Span, lineage

LOWEST_LOGPROB = -9998.0  # vLLM writes -9999.0 where it has no finite log-prob

# What a server does when neither the request nor the model's generation config says anything.
NEUTRAL = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}


class Origin(NamedTuple):
    """The weights that answered a call, as far as the server told."""

    model_root: str | None
    version: str | None  # the adapter's name
    adapter_root: str | None


@dataclass(frozen=True)
class Turn:
    """One call within a sample: the tokens `start:stop` were sampled by `version` under `setting`."""

    span_id: str
    number: int  # of the call among those of its rollout that got a reply, from 0
    of: int  # how many those are
    start: int
    stop: int
    version: str
    setting: str
    temperature: float
    logprobs_mode: str | None
    truncated: bool  # the length limit cut it off


@dataclass
class Sample:
    """One token sequence; 1 in `loss_mask` marks the tokens that the policy sampled and that are trained."""

    rollout_id: str
    task_key: str
    role: str
    ids: np.ndarray  # int64
    loss_mask: np.ndarray  # bool
    behaviour_logprobs: np.ndarray  # float32; NaN is unknown
    temperatures: np.ndarray  # float32
    turns: list[Turn]

    @property
    def trained(self) -> np.ndarray:
        """Positions of the trained tokens."""
        return np.flatnonzero(self.loss_mask)


@dataclass
class Trajectories:
    """The samples of one or many rollouts, and what was left out or is not known, by reason."""

    samples: list[Sample] = field(default_factory=list)
    calls: int = 0
    used: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # calls
    breaks: Counter[str] = field(default_factory=Counter)  # calls that start a new sample
    unknown: Counter[str] = field(default_factory=Counter)  # sampled tokens whose ratio is not known
    origins: Counter[Origin] = field(default_factory=Counter)  # used calls by the weights that answered

    def add(self, other: Trajectories) -> None:
        self.samples += other.samples
        self.calls += other.calls
        self.used += other.used
        for name in ("dropped", "breaks", "unknown", "origins"):
            getattr(self, name).update(getattr(other, name))


Defaults = Callable[[str | None], dict[str, Any]]


def build(
    rollout: Rollout, *, components: Collection[str] = (), defaults: Defaults = lambda model_root: {}
) -> Trajectories:
    """Attach each call to the longest exact prefix among the earlier ones of its role, then read off the samples.

    `components` are the roles to train, none is all. `defaults` gives a model's own sampling settings, which a
    server applies to what a request leaves unset.
    """
    made = Trajectories(calls=len(rollout.spans))
    usable = []
    for span in rollout.spans:
        reason = why_not(span, components)
        if reason:
            made.dropped[reason] += 1
        else:
            usable.append(span)
    found = lineage.nodes(usable)
    for broke in {id(node.span): node.broke for node in found}.values():
        if broke is not None:
            made.breaks[broke.name] += 1
    _read_off(rollout, found, defaults, made)
    return made


def _read_off(rollout: Rollout, nodes: list[lineage.Node], defaults: Defaults, made: Trajectories) -> None:
    opening = next((span.prompt_ids for span in rollout.spans if span.prompt_ids), ())
    key = (
        f"task {rollout.task_id}" if rollout.task_id else f"prompt {_digest(np.asarray(opening, np.uint32).tobytes())}"
    )
    replied = [span.span_id for span in rollout.spans if span.status == "ok"]
    used: set[str] = set()
    samples: dict[int, Sample] = {}  # by id() of the node that they end with
    for node in nodes:
        if not node.opened:
            continue
        if node.span.span_id not in used:
            used.add(node.span.span_id)
            made.origins[Origin(node.span.model_root, node.span.policy_version, node.span.adapter_root)] += 1
        sample = samples.pop(id(node.parent), None)
        if sample is None:
            empty = np.zeros(0)
            sample = Sample(rollout.rollout_id, key, node.span.role, empty, empty, empty, empty, [])
            made.samples.append(sample)
        samples[id(node)] = sample
        _extend(sample, node, (replied.index(node.span.span_id), len(replied)), defaults, made.unknown)
    made.used += len(used)
    unclear = {node.span.span_id for node in nodes} - used
    if unclear:
        made.dropped["n > 1, and no later call shows which choice was used"] += len(unclear)


def _extend(
    sample: Sample, node: lineage.Node, place: tuple[int, int], defaults: Defaults, unknown: Counter[str]
) -> None:
    """Make the sample end with the node's completion; only that completion becomes trained."""
    ids = np.frombuffer(node.tokens, np.uint32).astype(np.int64)
    start, stop, had = len(node.span.prompt_ids or ()), len(ids), len(sample.ids)
    temperature, setting, reason = sampling_of(node.span, defaults(node.span.model_root))
    logprobs = _logprobs(node.choice, reason, unknown)

    def grown(old: np.ndarray, fill: Any, dtype: Any) -> np.ndarray:
        return np.concatenate([old.astype(dtype), np.full(stop - had, fill, dtype)])

    sample.ids = ids
    sample.loss_mask = grown(sample.loss_mask, False, bool)
    sample.behaviour_logprobs = grown(sample.behaviour_logprobs, np.nan, np.float32)
    sample.temperatures = grown(sample.temperatures, 1.0, np.float32)
    sample.loss_mask[start:] = True
    sample.behaviour_logprobs[start:] = logprobs
    sample.temperatures[start:] = temperature
    version = node.span.policy_version or node.span.model or "base"
    mode = node.span.sampling.get("logprobs_mode")
    truncated = node.choice.finish_reason == "length"
    sample.turns.append(Turn(node.span.span_id, *place, start, stop, version, setting, temperature, mode, truncated))


def why_not(span: Span, components: Collection[str]) -> str | None:
    """Why this call cannot be trained on; None if it can."""
    if components and span.role not in components:
        return "another role than --component"
    if span.status == "error":
        return "the call failed"
    if span.status == "partial":
        return "the reply was cut off"
    if not span.trainable:
        return span.reason or "not trainable"
    if not span.prompt_ids or not span.choices:
        return "no token ids"
    completions = [choice.completion_ids for choice in span.choices]
    if any(ids is None for ids in completions):
        return "no token ids"
    if not any(completions):
        return "no sampled tokens"
    for choice in span.choices:
        logprobs = choice.completion_logprobs
        if logprobs is not None and len(logprobs) != len(choice.completion_ids or ()):
            return "ids and log-probs differ in number"
    return None


def sampling_of(span: Span, defaults: dict[str, Any]) -> tuple[float, str, str | None]:
    """The call's temperature, its settings in words, and why its log-probs describe no softmax, if so."""
    known = {key: value for key, value in (defaults | span.sampling).items() if value is not None}
    temperature = known.get("temperature")
    cut = [f"{key} {known[key]:g}" for key in NEUTRAL if key in known and not _neutral(key, known[key])]
    if temperature is None:
        words, reason, temperature = ["temperature unset, taken as 1"], None, 1.0
    elif temperature == 0:  # greedy: the sampled distribution has one point
        words, reason, temperature = ["temperature 0"], "temperature 0", 1.0
    else:
        words, reason, temperature = [f"temperature {temperature:g}"], None, float(temperature)
    if cut:
        reason = "truncated or penalised sampling (" + ", ".join(entry.split()[0] for entry in cut) + ")"
    return temperature, ", ".join(words + cut), reason


def _neutral(key: str, value: Any) -> bool:
    return value == NEUTRAL[key] or (key == "top_k" and value == -1)


def _logprobs(choice: Choice, reason: str | None, unknown: Counter[str]) -> np.ndarray:
    number = len(choice.completion_ids or ())
    if choice.completion_logprobs is None:
        unknown["no log-probs"] += number
        return np.full(number, np.nan, np.float32)
    if reason:
        unknown[reason] += number
        return np.full(number, np.nan, np.float32)
    logprobs = np.asarray(choice.completion_logprobs, np.float32).copy()
    bad = ~np.isfinite(logprobs) | (logprobs <= LOWEST_LOGPROB) | (logprobs > 1e-3)
    if bad.any():
        unknown["log-prob missing or not finite"] += int(bad.sum())
    logprobs[bad] = np.nan
    return logprobs


def _digest(prompt: bytes) -> str:
    from hashlib import blake2b

    return blake2b(prompt, digest_size=4).hexdigest()

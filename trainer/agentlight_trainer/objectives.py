"""The objectives by name: which term, baseline, aggregation and bounds a name stands for; flags change single ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from agentlight_trainer.losses import Rule


@dataclass(frozen=True)
class Objective:
    """`rule` is the loss, `advantage` its baseline and scale, `overlong` what is done with rollouts cut by length."""

    rule: Rule
    advantage: str = "group"
    aggregation: str = "token_mean"
    overlong: str = "keep"


# Groups whose rewards are equal train nothing under any of them: DAPO's dynamic sampling, of data that is there.
OBJECTIVES: dict[str, Objective] = {
    "grpo": Objective(Rule()),
    "dr_grpo": Objective(Rule(), advantage="center", aggregation="constant"),
    "dapo": Objective(Rule(), overlong="filter"),
    "gspo": Objective(Rule(term="gspo", clip_low=3e-4, clip_high=4e-4), aggregation="sequence_mean"),
    "cispo": Objective(Rule(term="cispo")),
    "rloo": Objective(Rule(term="sequence_clip", clip_high=0.2), advantage="rloo", aggregation="sequence_mean"),
    "reinforce_pp": Objective(Rule(), advantage="whiten"),
    "reinforce_pp_baseline": Objective(Rule(), advantage="center_whiten"),
    "sft": Objective(Rule(term="likelihood", correction="none"), advantage="best"),
}


def objective(config: Any) -> Objective:
    """The named one, with what the flags of a TrainConfig change."""
    named = OBJECTIVES[config.objective]
    names = ("clip_low", "clip_high", "correction", "correction_low", "correction_high")
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    rule = replace(
        named.rule,
        anchor=config.anchor,
        dual_clip=config.dual_clip,
        cispo_cap=config.cispo_cap,
        off_policy_limit=config.off_policy_limit,
        kl=config.kl,
        **given,
    )
    return Objective(
        rule,
        config.advantage or named.advantage,
        config.aggregation or named.aggregation,
        config.overlong or named.overlong,
    )

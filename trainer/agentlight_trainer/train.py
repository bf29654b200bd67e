"""One training run from stores to an adapter, as a page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentlight_store import Store
from agentlight_trainer import checkpoint, dataset, policy, preflight, progress, ranks, steps
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.credit import turn_advantages
from agentlight_trainer.errors import NothingToTrain, SettingError, TrainerError
from agentlight_trainer.optimize import optimize
from agentlight_trainer.packing import pack_rows, pack_tree
from agentlight_trainer.selftest import tree_fault


@dataclass(frozen=True)
class Result:
    """What a run made. `weights` is None after a dry run."""

    steps: int
    rollouts: int
    groups: int
    reward: float
    weights: Path | None
    report: Path | None
    published: tuple[str, ...] = field(default=())  # the names, a server each


def train(config: TrainConfig) -> Result:
    """Read, check, train, save, report and publish; raises an AgentlightError that says what is wrong."""
    check_settings(config)
    with ranks.joined():
        data = dataset.read(config)
        model, adapter = dataset.start_weights(config, data.trajectories.origins)
        learner = policy.load(config, model, adapter)
        ahead = look_ahead(config, data, learner, model, adapter)
        before = ahead.before
        progress.show_preflight(before)
        if before.refusal:
            raise TrainerError(before.refusal)
        reward = sum(data.scored) / len(data.scored)
        rollouts = sum(len(step.rewards) for step in ahead.steps)
        if config.dry_run:
            return Result(0, rollouts, len(data.with_signal), reward, None, None)
        output = Path(config.output)
        output.mkdir(parents=True, exist_ok=True)
        metrics = optimize(config, learner, ahead.steps, ahead.held_out, output)
        weights = save(config, learner, output)
    done = Result(len(metrics), rollouts, len(data.with_signal), reward, weights, output / "report.html")
    if not ranks.is_first():
        return done
    if config.debug_trace:
        _trace(data, output / "credit.jsonl")
    published, proofs = [], []
    for url in config.publish:
        from agentlight_trainer.publish import publish

        probes = [sample for step in ahead.steps for pack in step.packs for sample in pack.samples[:1]]
        name, proof = publish(url, weights, learner, probes)
        published.append(name)
        proofs.append(f"{url}: {proof}")
        progress.say(f"published as {name}: {proof}", style="green")
    from agentlight_trainer.report import write_report

    write_report(output / "report.html", config, before, metrics, ", ".join(published))
    return replace(done, published=tuple(published))


def train_roles(config: TrainConfig) -> dict[str, Result]:
    """One adapter for each agent role of the stores, each in a folder of its own; roles without signal are said."""
    roles = config.component or tuple(
        dict.fromkeys(span.role for path in config.stores for one in Store.open(path).rollouts() for span in one.spans)
    )
    made = {}
    for role in roles:
        progress.say(f"role {role}", style="bold")
        one = replace(config, component=(role,), per_role=False, output=str(Path(config.output) / role))
        try:
            made[role] = train(one)
        except NothingToTrain as error:
            progress.say(f"role {role} is left out: {error}", style="yellow")
    if not made:
        raise NothingToTrain(f"none of the roles {', '.join(roles)} can be trained on")
    return made


def check_settings(config: TrainConfig) -> None:
    """Raises SettingError for values that are out of range, and for flags that exclude each other."""
    for name in (
        "epochs",
        "max_tokens",
        "lora_rank",
        "snapshot_interval",
        "gradient_clip",
        "length",
        "patience",
        "rounds",
    ):
        if getattr(config, name) <= 0:
            raise SettingError(f"--{name.replace('_', '-')} is {getattr(config, name)}, and must be more than 0")
    for name in ("rollouts_per_step", "max_turns", "credit_window"):
        if getattr(config, name) is not None and getattr(config, name) <= 0:
            raise SettingError(f"--{name.replace('_', '-')} is {getattr(config, name)}, and must be more than 0")
    excluded = {
        "--full trains every weight and --adapter continues an adapter: give one of them": (
            config.full and config.adapter not in (None, "none")
        ),
        "--publish loads an adapter into a running server, and --full makes none": bool(config.full and config.publish),
        "--merge puts an adapter into the model, and --full makes none": config.full and config.merge,
        "--credit turn_rewards needs --turn-reward NAME, the reward that is emitted after turns": (
            config.credit == "turn_rewards" and config.turn_reward is None
        ),
        f"--credit {config.credit} needs a baseline; --objective {config.objective} has none": (
            config.credit != "uniform"
            and (config.advantage in ("best", "whiten") or config.objective in ("sft", "reinforce_pp"))
            and config.advantage not in ("group", "center", "rloo", "batch_std", "center_whiten")
        ),
        f"--validation {config.validation} is no share from 0 to below 1": not 0 <= config.validation < 1,
        "--rounds needs --collect, the command that makes the rollouts of a round": (
            config.rounds > 1 and not config.collect
        ),
        "--evaluate and --replay are for rounds; --collect makes them": (
            bool(config.evaluate or config.replay) and not config.collect
        ),
    }  # fmt: skip
    problem = next((problem for problem, there in excluded.items() if there), None)
    if problem:
        raise SettingError(problem)


@dataclass
class Ahead:
    """What is known before the first step."""

    steps: list[steps.Step]  # of one epoch
    held_out: steps.Step | None  # the rollouts of the held-out tasks
    before: preflight.Preflight


def look_ahead(
    config: TrainConfig, data: dataset.Dataset, learner: policy.Policy, model: str, adapter: str | None
) -> Ahead:
    """Plan the steps and measure them with the weights at the start."""
    groups = data.with_signal
    fault = tree_fault(learner, [sample for group in groups for sample in group.samples])
    packer = pack_rows if fault else pack_tree
    planned = steps.plan(groups, config, packer, learner.context, data.credit)
    if not planned.steps:
        raise TrainerError(f"nothing is left to train on: {', '.join(planned.cuts)}")
    whole = replace(config, rollouts_per_step=1 << 30)
    kept = [group for group in data.validation if group.state == "signal"]
    held_out = steps.plan(kept, whole, packer, learner.context, data.credit).steps
    if config.validation and not held_out:
        raise SettingError(
            f"--validation {config.validation} holds out no task whose rollouts differ in reward: give a larger share"
        )
    everything = [*planned.steps, *held_out]
    with progress.bar("pre-flight", sum(step.computed_tokens for step in everything)) as advance:
        measured = preflight.measure(learner, everything, config, advance)
    data.cuts.update(planned.cuts)
    before = preflight.Preflight(
        model=model,
        adapter=adapter,
        dtype=str(learner.dtype).removeprefix("torch."),
        packing="plain rows" if fault else "prefix tree",
        dataset=data,
        steps=len(planned.steps),
        gaps=measured.gaps,
        log_ratios=measured.log_ratios,
        tokens=sum(len(s.ids) for step in everything for pack in step.packs for s in pack.samples),
        trained_tokens=sum(step.trained_tokens for step in everything),
        computed_tokens=sum(step.computed_tokens for step in everything),
        seconds=measured.seconds * config.epochs * preflight.BACKWARD,
        credit_variance=preflight.credit_variance(data),
        memory=preflight.peak_memory(),
    )
    if fault:
        before.warnings.append(f"the prefix tree does not hold on this model, plain rows are used: {fault}")
    preflight.judge(before, config)
    return Ahead(planned.steps, held_out[0] if held_out else None, before)


def save(config: TrainConfig, learner: policy.Policy, output: Path) -> Path:
    """Write what was trained; the first rank does. Returns its folder."""
    final = output / ("model" if config.full else "adapter")
    if ranks.is_first():
        checkpoint.write(final, learner.save)
        if config.merge:
            checkpoint.write(output / "merged", learner.save_merged)
    return final


def _trace(data: dataset.Dataset, path: Path) -> None:
    with path.open("w") as file:
        for group in data.with_signal:
            for (rollout, number), advantage in sorted(turn_advantages(group, data.credit).items()):
                line = {"task": group.key, "role": group.role, "rollout_id": rollout, "turn": number}
                line |= {"reward": group.rewards[rollout], "advantage": advantage}
                file.write(json.dumps(line) + "\n")

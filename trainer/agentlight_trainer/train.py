"""One training run from stores to an adapter, as the loop reads."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agentlight_trainer import checkpoint, dataset, policy, preflight, progress, steps
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.losses import LOSSES
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
    published: str | None = None


def train(config: TrainConfig) -> Result:
    """Read, check, train, save, report and publish; raises an AgentlightError that says what is wrong."""
    check_settings(config)
    data = dataset.read(config)
    model, adapter = dataset.start_weights(config, data.trajectories.origins)
    learner = policy.load(config, model, adapter)
    epoch_steps, before = look_ahead(config, data, learner, model, adapter)
    progress.show_preflight(before)
    if before.refusal:
        raise TrainerError(before.refusal)
    reward = sum(data.scored) / len(data.scored)
    rollouts = sum(len(step.rewards) for step in epoch_steps)
    if config.dry_run:
        return Result(0, rollouts, len(data.with_signal), reward, None, None)
    output = Path(config.output)
    output.mkdir(parents=True, exist_ok=True)
    metrics = optimize(config, learner, epoch_steps, output)
    weights = save(config, learner, output)
    published = None
    if config.publish:
        from agentlight_trainer.publish import publish

        probes = [sample for step in epoch_steps for pack in step.packs for sample in pack.samples[:1]]
        published, proof = publish(config.publish, weights, learner, probes)
        progress.say(f"published as {published}: {proof}", style="green")
    from agentlight_trainer.report import write_report

    report = write_report(output / "report.html", config, before, metrics, published)
    return Result(len(metrics), rollouts, len(data.with_signal), reward, weights, report, published)


def check_settings(config: TrainConfig) -> None:
    for name in ("epochs", "max_tokens", "lora_rank", "save_every", "gradient_clip"):
        if getattr(config, name) <= 0:
            raise SettingError(f"--{name.replace('_', '-')} is {getattr(config, name)}, and must be more than 0")
    if config.rollouts_per_step is not None and config.rollouts_per_step <= 0:
        raise SettingError(f"--rollouts-per-step is {config.rollouts_per_step}, and must be more than 0")
    if config.full and config.adapter not in (None, "none"):
        raise SettingError("--full trains every weight and --adapter continues an adapter: give one of them")
    if config.full and config.publish:
        raise SettingError("--publish loads an adapter into a running server, and --full makes none")


def look_ahead(
    config: TrainConfig, data: dataset.Dataset, learner: policy.Policy, model: str, adapter: str | None
) -> tuple[list[steps.Step], preflight.Preflight]:
    """Plan the steps and measure them with the weights at the start."""
    groups = data.with_signal
    fault = tree_fault(learner, [sample for group in groups for sample in group.samples])
    epoch_steps, too_long = steps.plan(groups, config, pack_rows if fault else pack_tree, learner.context)
    if not epoch_steps:
        raise TrainerError(f"all {too_long} samples are longer than the model's context of {learner.context} tokens")
    computed = sum(step.computed_tokens for step in epoch_steps)
    with progress.bar("pre-flight", computed) as advance:
        gaps = preflight.measure(learner, epoch_steps, config, advance)
    before = preflight.Preflight(
        model=model,
        adapter=adapter,
        dtype=str(learner.dtype).removeprefix("torch."),
        packing="plain rows" if fault else "prefix tree",
        dataset=data,
        steps=len(epoch_steps),
        gaps=gaps,
        tokens=sum(len(s.ids) for step in epoch_steps for pack in step.packs for s in pack.samples),
        trained_tokens=sum(step.trained_tokens for step in epoch_steps),
        computed_tokens=computed,
        too_long=too_long,
    )
    if fault:
        before.warnings.append(f"the prefix tree does not hold on this model, plain rows are used: {fault}")
    preflight.judge(before, config)
    return epoch_steps, before


def optimize(
    config: TrainConfig, learner: policy.Policy, epoch_steps: Sequence[steps.Step], output: Path
) -> list[dict[str, Any]]:
    """The loop. Returns the metrics of every step, those before a resume included."""
    run = list(steps.order(epoch_steps, config))
    fingerprint = _fingerprint(config, epoch_steps)
    metrics = _resume(config, learner, output, fingerprint) if config.resume else []
    done, began = len(metrics), time.monotonic()
    with (output / "metrics.jsonl").open("w") as log, progress.bar("training", len(run)) as advance:
        log.writelines(json.dumps(line) + "\n" for line in metrics)
        advance(done)
        for number, (epoch, step) in enumerate(run[done:], done + 1):
            line = {"step": number, "epoch": epoch + 1} | take_step(config, learner, step)
            metrics.append(line)
            log.write(json.dumps(line) + "\n")
            log.flush()
            left = (time.monotonic() - began) / (number - done) * (len(run) - number)
            progress.say(progress.step_line(line, len(run), left))
            advance(1)
            if number == 1 and (still := learner.still()):
                raise TrainerError(f"{len(still)} adapter tensors did not move in step 1, such as {still[0]}")
            if number % config.save_every == 0 or number == len(run):
                checkpoint.save(output / "checkpoints", learner, number, fingerprint)
    return metrics


def take_step(config: TrainConfig, learner: policy.Policy, step: steps.Step) -> dict[str, Any]:
    """One update. The gradient is the same for every cut of the step into packs."""
    began, loss, sums = time.monotonic(), 0.0, dict[str, float]()
    for pack in step.packs:
        part = pack_loss(config, learner, step, pack)
        value = part.value.item()
        if not math.isfinite(value):
            raise TrainerError(f"the loss is {value}: nothing was updated; --resume goes on from before this step")
        part.value.backward()
        loss += value
        for name, amount in part.sums.items():
            sums[name] = sums.get(name, 0.0) + amount
    rate = learner.scheduler.get_last_lr()[0]
    norm = learner.step(config.gradient_clip)
    seconds = time.monotonic() - began
    return {
        "loss": loss,
        "reward": sum(step.rewards) / len(step.rewards),
        **{name: amount / step.trained_tokens for name, amount in sums.items()},
        "gradient_norm": norm,
        "learning_rate": rate,
        "rollouts": len(step.rewards),
        "trained_tokens": step.trained_tokens,
        "computed_tokens": step.computed_tokens,
        "seconds": seconds,
        "tokens_per_second": sum(len(s.ids) for pack in step.packs for s in pack.samples) / seconds,
    }


def pack_loss(config: TrainConfig, learner: policy.Policy, step: steps.Step, pack: Any) -> Any:
    device = learner.device
    anchor_T = pack.anchor_logprobs_T.to(device)
    return LOSSES[config.objective](
        learner.logprobs(pack),
        anchor_T,
        pack.behaviour_logprobs_T.to(device),
        step.advantages_T(pack).to(device),
        step.weights_T(pack).to(device),
        anchor=config.anchor,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        kl=config.kl,
        reference_logprobs_T=anchor_T,  # the reference is the model at the start, its adapter included
    )


def save(config: TrainConfig, learner: policy.Policy, output: Path) -> Path:
    final = output / ("model" if config.full else "adapter")
    aside = output / f".{final.name}.new"
    learner.save(aside)
    checkpoint.replace(aside, final)
    return final


def _resume(config: TrainConfig, learner: policy.Policy, output: Path, fingerprint: str) -> list[dict[str, Any]]:
    found, passed_over = checkpoint.newest(output / "checkpoints", fingerprint)
    for reason in passed_over:
        progress.say(f"passed over: {reason}", style="yellow")
    if found is None:
        if any("other settings" in reason for reason in passed_over):
            raise SettingError(
                f"the checkpoints in {output} are of other rollouts or other settings; leave out --resume, or give "
                "the stores and flags of then"
            )
        progress.say("no checkpoint to resume from: starting at step 1")
        return []
    checkpoint.restore(found, learner)
    progress.say(f"resumed after step {found.step}")
    lines = (output / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[: found.step]]


# What may differ between a run and its continuation: nothing that changes a step's result.
_FREE = {"stores", "output", "epochs", "save_every", "resume", "publish", "dry_run", "force", "device"}


def _fingerprint(config: TrainConfig, epoch_steps: Sequence[steps.Step]) -> str:
    made = hashlib.blake2b(digest_size=16)
    settings = {name: value for name, value in vars(config).items() if name not in _FREE}
    made.update(json.dumps(settings, sort_keys=True).encode())
    for step in epoch_steps:
        for pack in step.packs:
            made.update(pack.ids_N.numpy().tobytes())
            made.update(pack.targets_T.numpy().tobytes())
            made.update(torch.nan_to_num(pack.behaviour_logprobs_T).numpy().tobytes())
            made.update(step.advantages_T(pack).numpy().tobytes())
    return made.hexdigest()

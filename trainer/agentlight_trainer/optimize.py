"""The loop: one update a step, its metrics, checkpoints, and what the held-out tasks say after each epoch."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agentlight_trainer import checkpoint, policy, progress, ranks, steps
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.losses import Loss, Rule, Tokens, loss_of
from agentlight_trainer.objectives import objective
from agentlight_trainer.packing import Pack
from agentlight_trainer.trackers import trackers

CROWDED = 0.85  # share of the memory in use from which checkpoints come sooner
CROWDED_INTERVAL = 30  # rollouts between them then


@dataclass
class Best:
    """What the held-out tasks have said so far; lower is better. Step 0 is the start."""

    value: float = math.inf
    step: int = 0
    worse: int = 0  # times in a row
    history: list[float] = field(default_factory=list)

    def see(self, step: int, value: float) -> bool:
        """True for a new best."""
        self.history.append(value)
        if value < self.value:
            self.value, self.step, self.worse = value, step, 0
            return True
        self.worse += 1
        return False


def optimize(
    config: TrainConfig,
    learner: policy.Policy,
    epoch_steps: Sequence[steps.Step],
    held_out: steps.Step | None,
    output: Path,
) -> list[dict[str, Any]]:
    """Returns the metrics of every step, those before a resume included; the weights are the best ones then."""
    run = list(steps.order(epoch_steps, config))
    learner.schedule(config.warmup_of(len(run)))
    fingerprint = fingerprint_of(config, epoch_steps)
    metrics = _resume(config, learner, output, fingerprint) if config.resume else []
    best, kept = Best(), output / "best.safetensors"
    if held_out is not None and not metrics:
        best.see(0, value_of(config, learner, held_out))
        checkpoint.save_weights(kept, learner)
    for line in metrics:
        if "validation_loss" in line:
            best.see(line["step"], line["validation_loss"])
    logs = trackers(config.log_to, output, vars(config)) if ranks.is_first() else []
    done, began, since = len(metrics), time.monotonic(), 0
    with _log(output) as log, progress.bar("training", len(run)) as advance:
        log.writelines(json.dumps(line) + "\n" for line in metrics)
        advance(done)
        for number, (epoch, step) in enumerate(run[done:], done + 1):
            line = {"step": number, "epoch": epoch + 1} | take_step(config, learner, step)
            if held_out is not None and number % len(epoch_steps) == 0:
                line["validation_loss"] = value_of(config, learner, held_out)
                if best.see(number, line["validation_loss"]):
                    checkpoint.save_weights(kept, learner)
            metrics.append(line)
            log.write(json.dumps(line) + "\n")
            log.flush()
            for write in logs:
                write(number, {name: value for name, value in line.items() if name not in ("step", "epoch")})
            left = (time.monotonic() - began) / (number - done) * (len(run) - number)
            progress.say(progress.step_line(line, len(run), left))
            advance(1)
            if number in (1, 2) and (still := learner.still(number)):
                raise TrainerError(f"{len(still)} adapter tensors did not move in step {number}, such as {still[0]}")
            since += len(step.rewards)
            stopping = best.worse >= config.patience
            if since >= _interval(config) or number == len(run) or stopping:
                checkpoint.save(output / "checkpoints", learner, number, fingerprint)
                since = 0
            if stopping:
                progress.say(f"stopped: {best.worse} times in a row no better on the held-out tasks", style="yellow")
                break
    if held_out is not None and best.step != metrics[-1]["step"]:
        checkpoint.load_weights(kept, learner)
        progress.say(f"rolled back to step {best.step}, the best on the held-out tasks ({best.value:+.4f})")
    return metrics


def _log(output: Path) -> Any:
    return (output / "metrics.jsonl").open("w") if ranks.is_first() else open("/dev/null", "w")


def _interval(config: TrainConfig) -> int:
    """Rollouts between two checkpoints."""
    return min(config.snapshot_interval, CROWDED_INTERVAL) if _memory_used() > CROWDED else config.snapshot_interval


def _memory_used() -> float:
    """Share of the device's memory that is in use; on a CPU, of the machine's."""
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return 1 - free / total
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0.0
    known = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return 1 - known.get("MemAvailable", 0) / known["MemTotal"]


def take_step(config: TrainConfig, learner: policy.Policy, step: steps.Step) -> dict[str, Any]:
    """One update. The gradient is the same for every cut of the step into packs, and for every number of ranks."""
    began, rule, sums = time.monotonic(), objective(config).rule, {"loss": 0.0}
    for pack in ranks.mine(step.packs):
        with learner.attending(pack):
            part = pack_loss(rule, learner, step, pack)
            part.value.backward()
        sums["loss"] += part.value.item()
        for name, amount in part.sums.items():
            sums[name] = sums.get(name, 0.0) + amount
    sums = ranks.totals(sums)
    loss = sums.pop("loss")
    if not math.isfinite(loss):
        raise TrainerError(f"the loss is {loss}: nothing was updated; --resume goes on from before this step")
    rate = learner.scheduler.get_last_lr()[0]
    norm = learner.step(config.gradient_clip)
    seconds = time.monotonic() - began
    return {
        "loss": loss,
        "reward": sum(step.rewards.values()) / len(step.rewards),
        **{name: amount / step.trained_tokens for name, amount in sums.items()},
        "gradient_norm": norm,
        "learning_rate": rate,
        "rollouts": len(step.rewards),
        "trained_tokens": step.trained_tokens,
        "computed_tokens": step.computed_tokens,
        "seconds": seconds,
        "tokens_per_second": sum(len(s.ids) for pack in step.packs for s in pack.samples) / seconds,
    }


def pack_loss(rule: Rule, learner: policy.Policy, step: steps.Step, pack: Pack) -> Loss:
    assert pack.anchor_logprobs_T is not None, "the pack was not scored"
    device = learner.device
    tokens = Tokens(
        learner.logprobs(pack),
        pack.anchor_logprobs_T.to(device),
        pack.behaviour_logprobs_T.to(device),
        step.advantages_T(pack).to(device),
        step.weights_T(pack).to(device),
        pack.samples_T.to(device),
    )
    return loss_of(tokens, rule)


@torch.no_grad()
def value_of(config: TrainConfig, learner: policy.Policy, step: steps.Step) -> float:
    """The loss over rollouts that are not trained on: how much worse their good tokens have become."""
    rule, total = objective(config).rule, 0.0
    for pack in ranks.mine(step.packs):
        with learner.attending(pack):
            total += pack_loss(rule, learner, step, pack).value.item()
    return ranks.totals({"loss": total})["loss"]


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
_FREE = {
    "stores", "output", "epochs", "snapshot_interval", "resume", "publish", "dry_run", "force", "device", "merge",
    "log_to", "rounds", "collect", "evaluate", "replay", "max_log_ratio",
}  # fmt: skip


def fingerprint_of(config: TrainConfig, epoch_steps: Sequence[steps.Step]) -> str:
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

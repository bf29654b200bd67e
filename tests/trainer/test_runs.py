"""What runs do beyond one straight pass: held-out tasks, roles, ranks, kill -9, full disks, merging."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from rollouts import sample, span, write_rollout
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agentlight_store import Store
from agentlight_trainer import TrainConfig, dataset
from agentlight_trainer.config import parse
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.objectives import OBJECTIVES
from agentlight_trainer.train import Result, train, train_roles

Stored = Callable[..., Path]
FAST = ["--dtype", "float32", "--device", "cpu", "--lora-rank", "4", "--learning-rate", "1e-2"]


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    return parse([str(tmp_path / "store"), "--output", str(tmp_path / "out"), "--rollouts-per-step", "4", *FAST])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter" / "adapter_model.safetensors")


def metrics(folder: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_every_objective_trains(sampled_store: Stored, config: TrainConfig, objective: str) -> None:
    """Each moves the weights with a finite loss; its ratio at step 1 is 1."""
    sampled_store()
    result = train(replace(config, objective=objective, epochs=1))
    first = metrics(config.output)[0]
    assert result.steps >= 1 and first["gradient_norm"] > 0
    assert first["ratio"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("credit", ["linear_decay", "discount", "prefix_tree"])
def test_every_credit_trains_and_is_traced(sampled_store: Stored, config: TrainConfig, credit: str) -> None:
    """credit.jsonl has a line a turn: two of each of twelve rollouts; a step back earns less under decay."""
    sampled_store()
    train(replace(config, credit=credit, gamma=0.5, epochs=1, debug_trace=True))
    lines = [json.loads(line) for line in (Path(config.output) / "credit.jsonl").read_text().splitlines()]
    assert [line["turn"] for line in lines].count(0) == [line["turn"] for line in lines].count(1) == 12
    assert any(line["advantage"] for line in lines)


def test_rewards_of_turns_come_from_when_they_were_emitted(tmp_path: Path, config: TrainConfig) -> None:
    """0.25 after the first call, 0.5 after the second, and a final reward of 1 on the last."""
    store = Store.open(tmp_path / "store", create=True)
    rollout = write_rollout(tmp_path / "store", [], None)
    for number in range(2):
        made = span([1], [2 + number])
        made.started_at = time.time()
        store.append(rollout, made)
        time.sleep(0.01)
        store.add_reward(rollout, 0.25 * (number + 1), name="step")
    store.add_reward(rollout, 1.0)
    one = replace(config, credit="turn_rewards", turn_reward="step")
    recorded = store.rewards(rollout)
    assert dataset.rewards_of_turns(store.rollout(rollout), recorded, one) == [0.25, 1.5]
    assert dataset.rewards_of_turns(store.rollout(rollout), recorded, replace(one, reward_scale=0.5)) == [0.125, 0.75]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--credit", "turn_rewards"], "needs --turn-reward"),
        (["--credit", "discount", "--objective", "sft"], "needs a baseline"),
        (["--role-gamma", "planner"], "is not ROLE=X"),
        (["--role-gamma", "planner=2"], "with X from 0 to 1"),
        (["--validation", "1"], "no share"),
        (["--rounds", "2"], "needs --collect"),
        (["--full", "--merge"], "--full makes none"),
        (["--log-to", "paper"], "known are tensorboard, wandb, trackio"),
        (["--log-to", "trackio"], "pip install trackio"),
        (["--max-turns", "0"], "must be more than 0"),
    ],
)
def test_flags_that_cannot_be_are_one_error(
    sampled_store: Stored, config: TrainConfig, flags: list[str], said: str
) -> None:
    sampled_store()
    given = parse([*config.stores, "--output", config.output, *FAST, *flags])
    with pytest.raises(SettingError, match=said):
        train(given)


def test_held_out_tasks_are_not_trained_on_and_stop_the_run(sampled_store: Stored, config: TrainConfig) -> None:
    """A learning rate that destroys the model: the held-out loss rises, and the weights of the best step come back."""
    sampled_store(tasks=6)
    result = train(replace(config, validation=0.4, learning_rate=2.0, epochs=8, patience=2))
    data = dataset.read(replace(config, validation=0.4))
    assert not {group.key for group in data.groups} & {group.key for group in data.validation}
    assert len(data.groups) + len(data.validation) == 6 and data.validation
    seen = [line["validation_loss"] for line in metrics(config.output) if "validation_loss" in line]
    assert len(seen) < 8  # stopped early
    assert seen[-1] > min([0.0, *seen])
    if min(seen) > 0:  # no epoch was better than the start: its adapter changes nothing
        assert not any(weight.any() for name, weight in weights(Path(config.output)).items() if "lora_B" in name)
    assert result.weights is not None


def two_roles(model: str, path: Path) -> None:
    """Four rollouts of a task: a planner and a writer, one call each."""
    torch.manual_seed(2)
    policy = AutoModelForCausalLM.from_pretrained(model).eval()
    for number in range(4):
        calls = []
        for role, prompt in (("planner", [3, 4]), ("writer", [5, 6, 7])):
            ids, logprobs = sample(policy, prompt, 4, 1.0, False)
            calls.append(span(prompt, ids, logprobs, role=role, model_root=model))
        write_rollout(path, calls, float(number % 2), task_id="t")


def test_each_role_gets_an_adapter_of_its_own(tiny_model: str, tmp_path: Path, config: TrainConfig) -> None:
    two_roles(tiny_model, tmp_path / "store")
    made = train_roles(replace(config, epochs=1))
    assert set(made) == {"planner", "writer"}
    assert all((tmp_path / "out" / role / "adapter" / "adapter_model.safetensors").is_file() for role in made)
    assert all(result.rollouts == 4 for result in made.values())


def test_components_are_the_roles_that_are_trained(tiny_model: str, tmp_path: Path, config: TrainConfig) -> None:
    two_roles(tiny_model, tmp_path / "store")
    data = dataset.read(replace(config, component=("writer",)))
    assert {one.role for one in data.trajectories.samples} == {"writer"}
    assert data.trajectories.dropped == {"another role than --component": 4}


def run(*flags: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "agentlight_trainer"]
    if ranks > 1:
        launcher[1:1] = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*launcher, *flags], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_two_ranks_do_what_one_does(sampled_store: Stored, tmp_path: Path) -> None:
    """torchrun with two processes over gloo: the same losses to 1e-6, the same adapter to 1e-5, one report."""
    store = str(sampled_store())
    flags = [store, *FAST, "--rollouts-per-step", "4", "--max-tokens", "30", "--epochs", "1"]
    outputs = []
    for ranks in (1, 2):
        output = tmp_path / f"ranks{ranks}"
        done = run(*flags, "--output", str(output), ranks=ranks)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("agentlight-train: 3 steps") == 1, done.stdout
        outputs.append(output)
    one, two = (metrics(output) for output in outputs)
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], abs=1e-6)
    assert [line["ratio"] for line in two] == pytest.approx([line["ratio"] for line in one], abs=1e-5)
    alone, together = (weights(output) for output in outputs)
    assert max(float((alone[name] - together[name]).abs().max()) for name in alone) < 1e-5


TIMES = ("seconds", "tokens_per_second")


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_bit_by_bit(sampled_store: Stored, tmp_path: Path) -> None:
    """kill -9 after the second checkpoint; --resume gives the weights and the log of a run that was left alone."""
    store = str(sampled_store(tasks=6))
    flags = [store, *FAST, "--rollouts-per-step", "4", "--epochs", "6", "--snapshot-interval", "4"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert run(*flags, "--output", str(straight)).returncode == 0
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "agentlight_trainer", *flags, "--output", str(killed)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (killed / "checkpoints" / "step-000002").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(metrics(killed))
    assert 2 <= done < 36
    resumed = run(*flags, "--output", str(killed), "--resume")
    assert resumed.returncode == 0 and "resumed after step" in resumed.stderr, resumed.stderr

    def told(folder: Path) -> list[dict[str, Any]]:
        return [{name: value for name, value in line.items() if name not in TIMES} for line in metrics(folder)]

    assert told(killed) == told(straight)
    one, two = weights(straight), weights(killed)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_full_disk_is_one_error_and_keeps_what_was_there(sampled_store: Stored, tmp_path: Path) -> None:
    """No file may grow beyond 20 KB: the first checkpoint fails, in one line, and leaves nothing half-written."""
    store = str(sampled_store())
    code = (
        "import resource, signal, sys; from agentlight_trainer.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "import torch, transformers, peft; import agentlight_trainer.train;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, store, *FAST, "--output", str(tmp_path / "out"), "--rollouts-per-step", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "the checkpoint of step 6 cannot be written" in last and "make room" in last, done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.startswith(".step")]


@pytest.mark.parametrize("checkpointing", [True, False])
def test_gradient_checkpointing_changes_nothing(
    sampled_store: Stored, config: TrainConfig, tmp_path: Path, checkpointing: bool
) -> None:
    """Three steps on trees, against three without: the same adapter to 1e-6, and all of its tensors have moved."""
    sampled_store()
    plain = train(replace(config, epochs=1, output=str(tmp_path / "plain")))
    other = train(replace(config, epochs=1, gradient_checkpointing=checkpointing))
    assert plain.steps == other.steps == 3
    one, two = weights(tmp_path / "plain"), weights(Path(config.output))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6
    assert all(weight.any() for weight in two.values())


def test_saved_reloaded_and_merged_weights_give_the_same_logprobs(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
) -> None:
    """An adapter reloaded onto a fresh base to 1e-6, the merged model to 1e-4; the base on disk is untouched."""
    before = (Path(tiny_model) / "model.safetensors").read_bytes()
    sampled_store()
    result = train(replace(config, merge=True))
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), str(result.weights))
    merged = AutoModelForCausalLM.from_pretrained(Path(config.output) / "merged")
    ids = torch.tensor([[5, 9, 20, 33, 4, 8]])
    with torch.no_grad():
        logprobs = [model(ids).logits.log_softmax(-1) for model in (base, adapted, merged)]
    assert float((logprobs[0] - logprobs[1]).abs().max()) > 0.01
    assert float((logprobs[2] - logprobs[1]).abs().max()) < 1e-4
    assert not list((Path(config.output) / "merged").glob("adapter*"))
    assert (Path(tiny_model) / "model.safetensors").read_bytes() == before


def test_rollouts_of_other_weights_among_good_ones_are_refused_by_version(
    sampled_store: Stored, config: TrainConfig, tiny_model: str
) -> None:
    """Twelve good rollouts, and four whose log-probs are those of something else, 3 nats off."""
    path = sampled_store()
    for number in range(4):
        call = span([9, 9, 9], [10 + number, 11], [-0.01, -0.01], model_root=tiny_model, model="tiny-old")
        write_rollout(path, [call], float(number % 2), task_id="old")
    with pytest.raises(TrainerError, match="rollouts of tiny-old is over 1: they were sampled by other weights"):
        train(config)
    assert train(replace(config, force=True, epochs=1)).steps > 0


def test_metrics_go_to_tensorboard(sampled_store: Stored, config: TrainConfig) -> None:
    sampled_store()
    train(replace(config, epochs=1, log_to=("tensorboard",)))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(Path(config.output) / "tensorboard"))
    events.Reload()
    logged = [event.value for event in events.Scalars("loss")]
    assert logged == pytest.approx([line["loss"] for line in metrics(config.output)], abs=1e-6)


def test_the_line_of_a_result_names_every_server() -> None:
    from agentlight_trainer.cli import line_of

    made = Result(3, 8, 2, 0.5, Path("out/adapter"), Path("out/report.html"), ("agentlight-1", "agentlight-2"))
    assert "served as agentlight-1, agentlight-2" in line_of(made)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--collect", "python agent.py"], "--collect is an agentlight-run command"),
        (["--collect", "agentlight-run --tasks t.jsonl python a.py"], "needs --serve MODEL in it, or --publish URL"),
        (["--collect", "agentlight-run --serve m --store s python a.py"], "--store is given by the round itself"),
        (["store", "--collect", "agentlight-run --serve m python a.py"], "leave out STORE"),
        (["store", "--replay", "1"], "are for rounds"),
    ],
)
def test_a_loop_that_cannot_be_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    """Said before anything is collected."""
    from agentlight_trainer.cli import main

    assert main([*flags, "--output", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "out").exists()


def test_the_plot_has_a_bar_a_round() -> None:
    """0.2, 0.3 and 0.4 of at most 0.4: 20, 30 and 40 blocks."""
    from agentlight_trainer.rounds import Round, plot

    title, *bars = plot([Round(0, measured=0.2), Round(1, 0.5, 0.3), Round(2, 0.6, 0.4)])
    assert title == "held-out reward by round"
    assert [bar.count("█") for bar in bars] == [20, 30, 40]
    assert bars[0].split()[0] == "before" and bars[2].endswith("0.400")


TEMPLATE = (
    "{% for message in messages %}{{ '<s>' + message['role'] + ' ' + message['content'] + '</s> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant ' }}{% endif %}"
)


@pytest.fixture
def with_tokenizer(tiny_model: str, tmp_path: Path) -> str:
    """The tiny model, with a tokenizer of a word a token and a chat template."""
    import shutil

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path / "worded"
    shutil.copytree(tiny_model, folder)
    words = ["<unk>", "<s>", "</s>", "user", "assistant", "how", "many", "three", "four"]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment] # a setter
    made.add_special_tokens(["<s>", "</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", bos_token="<s>", unk_token="<unk>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_calls_without_ids_are_rendered_only_when_asked(
    with_tokenizer: str, tmp_path: Path, config: TrainConfig
) -> None:
    """<s> user how many </s> <s> assistant | three </s>: the prompt is seven tokens, the reply and its end two."""
    for text, reward in (("three", 1.0), ("four", 0.0)):
        call = span(
            [],
            [],
            prompt_ids=None,
            trainable=False,
            reason="no token ids",
            messages=[{"role": "user", "content": "how many"}],
        )
        call.choices[0].text, call.choices[0].completion_ids, call.choices[0].completion_logprobs = text, None, None
        write_rollout(tmp_path / "store", [call], reward)
    with pytest.raises(TrainerError, match="no token ids"):
        dataset.read(replace(config, model=with_tokenizer))
    asked = replace(config, model=with_tokenizer, reconstruct=True)
    data = dataset.read(asked)
    one = max(data.trajectories.samples, key=lambda made: data.rewards[made.rollout_id] or 0)
    assert one.ids.tolist() == [1, 3, 5, 6, 2, 1, 4, 7, 2]
    assert one.ids[one.loss_mask].tolist() == [7, 2]
    assert data.trajectories.unknown == {"no log-probs": 4}
    assert train(replace(asked, objective="sft")).steps > 0
    with pytest.raises(SettingError, match="needs --model"):
        dataset.read(replace(config, reconstruct=True))

"""Tokens a second and peak memory of one optimizer step, on the same stored rollouts: prefix tree, plain rows, TRL.

    python benchmarks/trainer.py [--model DIR] [--only group|agent] [--rounds N]

Two kinds of rollouts: a single-turn group of 16 with a prompt of 1,000 tokens and 64 sampled ones each, and 4
rollouts of an agent with 10 turns. A model of SmolLM2-135M's shape with random weights unless DIR is given: what the
weights are does not matter to the time. Each way runs in a process of its own, in turn, for N rounds; medians of
tokens/s, counted as rows have them (a shared token counts for everybody). TRL's is the loss of its own GRPOTrainer.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

import numpy as np

WAYS = ("tree", "rows", "trl")
KINDS = {"group": "16 rollouts, prompt 1,000, sampled 64", "agent": "4 rollouts of 10 turns, sampled 24, observed 40"}
VOCABULARY = 49152
TRL_ROWS = 4  # a micro-batch of TRL's; of 1, 2, 4 and 8 the fastest here


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", metavar="DIR", help="(default: random weights of SmolLM2-135M's shape)")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # WAY STORE MODEL, in a process of its own
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or make_model(Path(folder, "model"))
        for kind in [options.only] if options.only else KINDS:
            store = str(Path(folder, kind))
            write_rollouts(kind, store, model)
            compare(kind, store, model, options.rounds)
    return 0


def compare(kind: str, store: str, model: str, rounds: int) -> None:
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--one", way, store, model]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(done.stderr[-2000:], file=sys.stderr)
                raise SystemExit(f"{way} failed")
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    speed = {way: statistics.median(one["tokens"] / one["seconds"] for one in runs) for way, runs in found.items()}
    dedup = found["tree"][0]["tokens"] / found["tree"][0]["computed"]
    print(f"\n{kind}: {KINDS[kind]} (D = {dedup:.2f}: rows have so many times the tokens of the tree)")
    for way in WAYS:
        memory = statistics.median(one["memory"] for one in found[way])
        ratios = f"{speed[way] / speed['rows']:5.2f} x rows  {speed[way] / speed['trl']:5.2f} x TRL"
        print(f"  {way:5} {speed[way]:8,.0f} tokens/s  {ratios}  peak memory {memory / 1024:6,.0f} MB")
    print(f"  of D the tree realises {speed['tree'] / speed['rows'] / dedup:.0%}")


def make_model(path: Path) -> str:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
    return str(path)


def write_rollouts(kind: str, path: str, model: str) -> None:
    """Random tokens: what is said does not matter to the time."""
    from agentlight_store import Choice, Span, Store, new_rollout_id

    random = np.random.default_rng(0)

    def words(number: int) -> list[int]:
        return random.integers(10, VOCABULARY - 10, number).tolist()

    opening = words(1000 if kind == "group" else 200)
    with Store.open(path, create=True) as store:
        for number in range(16 if kind == "group" else 4):
            rollout, prompt = new_rollout_id(), list(opening)
            store.begin_rollout(rollout, task_id="t")
            for turn in range(1 if kind == "group" else 10):
                sampled = words(64 if kind == "group" else 24)
                choice = Choice(
                    completion_ids=array("I", sampled), completion_logprobs=array("f", [-10.8] * len(sampled))
                )
                span = Span(
                    prompt_ids=array("I", prompt), choices=[choice], trainable=True, sampling={"temperature": 1.0},
                    model="m", model_root=model, started_at=float(turn + 1), status="ok",
                )  # fmt: skip
                store.append(rollout, span)
                prompt = [*prompt, *sampled, *words(40)]
            store.add_reward(rollout, float(number % 2))
            store.end_rollout(rollout, status="ok")


def measured(way: str, store: str, model: str) -> dict[str, float]:
    """Seconds of one optimizer step (the second one), tokens as rows have them, tokens computed, peak memory in KB."""
    from agentlight_trainer import TrainConfig, dataset, policy
    from agentlight_trainer.packing import pack_rows, pack_tree
    from agentlight_trainer.steps import plan

    config = TrainConfig(stores=(store,), rollouts_per_step=1 << 20, force=True)
    data = dataset.read(config)
    learner = policy.load(config, model, None)
    (step,) = plan(data.with_signal, config, pack_tree if way == "tree" else pack_rows, 8192, data.credit).steps
    samples = [sample for pack in step.packs for sample in pack.samples]
    tokens = sum(len(sample.ids) for sample in samples)
    run = trl_step(learner, step, samples) if way == "trl" else our_step(config, learner, step)
    run()
    began = time.monotonic()
    run()
    seconds = time.monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "tokens": tokens, "computed": step.computed_tokens, "memory": memory}


def our_step(config: Any, learner: Any, step: Any) -> Any:
    from agentlight_trainer.optimize import take_step

    for pack in step.packs:
        pack.anchor_logprobs_T = pack.behaviour_logprobs_T.clone()
    return lambda: take_step(config, learner, step)


def trl_step(learner: Any, step: Any, samples: list[Any]) -> Any:
    """The loss of TRL's GRPOTrainer over padded micro-batches, with the same model, adapter and optimizer."""
    import torch
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    starts = [sample.turns[0].start for sample in samples]
    longest, prompt = max(len(s.ids) - start for s, start in zip(samples, starts, strict=True)), max(starts)
    batches = []
    for first in range(0, len(samples), TRL_ROWS):
        rows = samples[first : first + TRL_ROWS]
        made = {name: torch.zeros(len(rows), width, dtype=torch.int64) for name, width in (
            ("prompt_ids", prompt), ("prompt_mask", prompt), ("completion_ids", longest), ("completion_mask", longest),
            ("tool_mask", longest))}  # fmt: skip
        for row, sample in enumerate(rows):
            start = sample.turns[0].start
            length = len(sample.ids) - start
            made["prompt_ids"][row, prompt - start :] = torch.from_numpy(sample.ids[:start])
            made["prompt_mask"][row, prompt - start :] = 1
            made["completion_ids"][row, :length] = torch.from_numpy(sample.ids[start:])
            made["completion_mask"][row, :length] = 1
            made["tool_mask"][row, :length] = torch.from_numpy(sample.loss_mask[start:].astype(np.int64))
        old = torch.full((len(rows), longest), -10.8)
        advantages = torch.tensor([step.advantages[id(sample)][0] for sample in rows])
        batches.append(made | {"advantages": advantages, "old_per_token_logps": old})
    trained = torch.tensor(sum(int(batch["tool_mask"].sum()) for batch in batches))
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=TRL_ROWS, gradient_accumulation_steps=len(batches),
            num_generations=2, generation_batch_size=TRL_ROWS * len(batches), max_completion_length=longest, beta=0.0,
            use_cpu=not torch.cuda.is_available(), report_to="none", bf16=False, gradient_checkpointing=False,
        )  # fmt: skip
        tokenizer = _tokenizer(PreTrainedTokenizerFast)
        trainer = GRPOTrainer(
            learner.model, lambda completions, **_: [0.0] * len(completions), args=settings,
            train_dataset=Dataset.from_dict({"prompt": ["a"] * 64}), processing_class=tokenizer,
        )  # fmt: skip
    trainer.current_gradient_accumulation_steps = len(batches)
    learner.model.train()

    def run() -> None:
        for batch in batches:
            trainer._compute_loss(learner.model, batch | {"num_items_in_batch": trained}).backward()
        learner.step(1.0)

    return run


def _tokenizer(kind: Any) -> Any:
    from tokenizers import Tokenizer, models

    words = {"a": 0, "<pad>": 1, "</s>": 2}
    made = Tokenizer(models.WordLevel(words, unk_token="a"))
    return kind(tokenizer_object=made, pad_token="<pad>", eos_token="</s>")


if __name__ == "__main__":
    sys.exit(main())

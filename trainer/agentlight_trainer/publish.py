"""Load a new adapter into a running vLLM under a name of its own, and prove with a probe that it is what is served."""

from __future__ import annotations

import hashlib
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agentlight_trainer.errors import PublishError
from agentlight_trainer.policy import Policy, check_adapter
from agentlight_trainer.trajectory import Sample

PROBES = 4
PROBE_TOKENS = 512
CLEAR = 2.0  # a mean change of log-probs is told from rounding when it is so many times as large
TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Proof:
    """How the served log-probs moved against how the trainer's moved, from base to new adapter."""

    served: float  # mean |change|
    expected: float
    slope: float  # 1 when the server serves exactly this adapter, 0 when it serves the base
    gap: float  # mean |served - trainer's| under the new name
    noise: float  # the same under the base's name: what rounding does

    @property
    def is_clear(self) -> bool:
        """The change is larger than rounding, which otherwise pulls the slope towards 0."""
        return self.expected >= CLEAR * self.noise

    def __str__(self) -> str:
        unclear = "" if self.is_clear else f", too little to tell from rounding ({self.noise:.3f})"
        return (
            f"served log-probs moved by {self.served:.3f}, the trainer's by {self.expected:.3f} "
            f"(slope {self.slope:.2f}){unclear}; they agree to {self.gap:.3f}"
        )


def publish(url: str, adapter: Path, learner: Policy, samples: Sequence[Sample]) -> tuple[str, Proof]:
    """Returns the new name and the proof. Raises PublishError if the server refuses or serves something else."""
    url = url.rstrip("/").removesuffix("/v1")
    config = check_adapter(str(adapter))
    if config.get("modules_to_save"):
        raise PublishError(f"{adapter} replaces whole modules ({config['modules_to_save']}), which vLLM cannot load")
    served = _request(url, "/v1/models")["data"]
    name = _fresh_name(adapter, {model["id"] for model in served})
    base = next((model["id"] for model in served if not model.get("parent")), None)
    if base is None:
        raise PublishError(f"{url} lists no base model, so nothing can be compared with it")
    # A copy under its own name: the next run replaces `adapter`, and the calls recorded until then must still
    # be traceable to the weights that answered them.
    kept = adapter.resolve().parent / "published" / name
    shutil.copytree(adapter, kept, dirs_exist_ok=True)
    _request(url, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(kept)})
    proof = prove(url, base, name, learner, samples)
    if proof.is_clear and not 0.5 < proof.slope < 2.0:
        raise PublishError(f"{url} took {name} but does not serve it: {proof}; restart the server and publish again")
    _unload_earlier(url, kept.parent, [model["id"] for model in served])
    return name, proof


def _unload_earlier(url: str, published: Path, served: list[str]) -> None:
    """Those that this output folder has published before, but for the last: a rollout may still be asking for it."""
    earlier = [name for name in served if (published / name).is_dir()]
    for name in earlier[:-1]:
        _request(url, "/v1/unload_lora_adapter", {"lora_name": name})


def base_of(url: str) -> str:
    """The name of the base model that a server lists. Raises PublishError."""
    url = url.rstrip("/").removesuffix("/v1")
    base = next((model["id"] for model in _request(url, "/v1/models")["data"] if not model.get("parent")), None)
    if base is None:
        raise PublishError(f"{url} lists no base model")
    return str(base)


def prove(url: str, base: str, name: str, learner: Policy, samples: Sequence[Sample]) -> Proof:
    """Compare on stored token sequences, so that neither a template nor sampling plays a part."""
    parts: list[list[torch.Tensor]] = [[], [], [], []]
    for sample in samples[:PROBES]:
        ids = sample.ids[:PROBE_TOKENS].tolist()
        with torch.no_grad():
            parts[0].append(learner.plain_logprobs(ids).cpu())
            with learner.model.disable_adapter():
                parts[1].append(learner.plain_logprobs(ids).cpu())
        parts[2].append(_served_logprobs(url, name, ids))
        parts[3].append(_served_logprobs(url, base, ids))
    new, old, served_new, served_old = (torch.cat(part).double() for part in parts)
    expected, served = new - old, served_new - served_old
    return Proof(
        served=float(served.abs().mean()),
        expected=float(expected.abs().mean()),
        slope=float((served * expected).sum() / (expected * expected).sum().clamp(min=1e-12)),
        gap=float((served_new - new).abs().mean()),
        noise=float((served_old - old).abs().mean()),
    )


def _served_logprobs(url: str, model: str, ids: list[int]) -> torch.Tensor:
    body = {"model": model, "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    entries = _request(url, "/v1/completions", body)["choices"][0].get("prompt_logprobs")
    if not entries or len(entries) != len(ids):
        raise PublishError(f"{url} gave no prompt log-probs for {model}, so the new weights cannot be proven")
    return torch.tensor([entry[str(token)]["logprob"] for entry, token in zip(entries[1:], ids[1:], strict=True)])


def _fresh_name(adapter: Path, taken: set[str]) -> str:
    """vLLM's prefix cache is keyed by name: a name that was served before could answer with the old weights."""
    content = hashlib.blake2b((adapter / "adapter_model.safetensors").read_bytes(), digest_size=4).hexdigest()
    number = 1
    while f"agentlight-{content}-{number}" in taken:
        number += 1
    return f"agentlight-{content}-{number}"


def _request(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            text = reply.read().decode()
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")[:300]
        hint = ""
        if path.endswith("load_lora_adapter") and error.code == 404:
            hint = " (start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)"
        elif "rank" in said:
            hint = " (start vLLM with a larger --max-lora-rank, or train with a smaller --lora-rank)"
        raise PublishError(f"{url}{path} answered {error.code}: {said}{hint}") from error
    except (OSError, ValueError) as error:
        raise PublishError(f"{url}{path} cannot be reached: {error}") from error
    return json.loads(text) if text.startswith("{") else text

"""The model being trained: loading, log-probs of given tokens, the optimizer's step, saving the weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from agentlight_trainer import ranks
from agentlight_trainer.attention import NAME, along
from agentlight_trainer.config import TrainConfig
from agentlight_trainer.errors import SettingError, TrainerError
from agentlight_trainer.head import target_logprobs
from agentlight_trainer.packing import Pack

BETAS = (0.9, 0.99)  # a run has tens of steps, and the second moment must settle within them


class Policy:
    """A causal language model, in evaluation mode for good: dropout would make the ratio at step 0 other than 1."""

    def __init__(
        self,
        model: Any,
        *,
        device: str = "cpu",
        learning_rate: float = 1e-4,
        autocast: bool = False,
        checkpointing: bool = False,
    ) -> None:
        self.model = model.to(device).eval()
        self.device = device
        self.autocast = autocast
        plain: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.body: nn.Module = plain.base_model
        head = plain.get_output_embeddings()
        if head is None:
            raise SettingError(f"{type(plain).__name__} has no language-model head: it cannot be trained here")
        self.head: nn.Module = head
        self.plain = plain
        self.trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.optimizer = torch.optim.AdamW(
            self.trained.values(), lr=learning_rate, betas=BETAS, weight_decay=0.0, foreach=False
        )
        self.schedule(0)
        self._start = {name: weight.detach().clone() for name, weight in self.trained.items() if "lora_" in name}
        if checkpointing:
            self._checkpoint_layers()

    def schedule(self, warmup_steps: int) -> None:
        """Linear warm-up over so many steps, then constant."""
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / max(1, warmup_steps))
        )

    def _checkpoint_layers(self) -> None:
        """Layers forget their activations and compute them again in the backward.

        transformers asks a layer whether it is in training mode: the layer alone is, so that its dropout stays off.
        """
        try:
            self.plain.gradient_checkpointing_enable({"use_reentrant": False})
        except ValueError as error:
            raise SettingError(f"--gradient-checkpointing: {error}") from None
        for module in self.body.modules():
            if hasattr(module, "gradient_checkpointing") and module is not self.body:
                module.training = True

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype  # type: ignore[return-value] # a Linear's

    @property
    def context(self) -> int:
        """The longest sequence that the model was made for."""
        return int(getattr(self.plain.config, "max_position_embeddings", None) or 2**31)

    def attending(self, pack: Pack) -> Any:
        """Within it attention follows the pack's tree: around the backward too, where layers are computed twice."""
        dtype = torch.bfloat16 if self.autocast else self.dtype
        return along(pack.runs if len(pack.runs) > 1 else (), dtype, self.device)

    def hidden(self, pack: Pack) -> Tensor:
        """The last hidden states of the pack's nodes."""
        tree = len(pack.runs) > 1
        cast = torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.autocast)
        with cast, self.attending(pack):
            made = self.body(
                input_ids=pack.ids_N[None].to(self.device),
                position_ids=pack.positions_N[None].to(self.device),
                # A mask of four dimensions is taken as it is, and along() needs none of the N x N ones.
                attention_mask=torch.zeros(1, 1, 1, 1, device=self.device) if tree else None,
                use_cache=False,
            )
        return made.last_hidden_state[0]

    def logprobs(self, pack: Pack) -> Tensor:
        """Log-probs of the pack's trained tokens, each at its call's temperature, in float32, with gradients."""
        hidden_TD = self.hidden(pack)[pack.sources_T.to(self.device)]
        return target_logprobs(
            self.head, hidden_TD, pack.targets_T.to(self.device), pack.temperatures_T.to(self.device)
        )

    @torch.no_grad()
    def score(self, pack: Pack) -> tuple[Tensor, Tensor]:
        """Log-probs at each call's temperature and at temperature 1, without gradients, on the CPU."""
        hidden_TD = self.hidden(pack)[pack.sources_T.to(self.device)]
        targets_T, temperatures_T = pack.targets_T.to(self.device), pack.temperatures_T.to(self.device)
        tempered_T = target_logprobs(self.head, hidden_TD, targets_T, temperatures_T).cpu()
        if bool((temperatures_T == 1).all()):
            return tempered_T, tempered_T
        raw_T = target_logprobs(self.head, hidden_TD, targets_T, torch.ones_like(temperatures_T))
        return tempered_T, raw_T.cpu()

    def plain_logprobs(self, ids: list[int]) -> Tensor:
        """Log-probs of ids[1:] at temperature 1 by the model's own forward, all logits kept: the yardstick."""
        ids_1T = torch.tensor([ids], device=self.device)
        logits_TV = self.model(input_ids=ids_1T, use_cache=False).logits[0, :-1].float()
        return logits_TV.log_softmax(1).gather(1, ids_1T[0, 1:, None])[:, 0]

    def step(self, gradient_clip: float) -> float:
        """Update the weights with the gradients that were collected; returns the gradient's norm."""
        weights = list(self.trained.values())
        for weight, gradient in zip(weights, ranks.add_up((weight.grad for weight in weights), weights), strict=True):
            weight.grad = gradient
        norm = float(nn.utils.clip_grad_norm_(weights, gradient_clip))
        if not torch.isfinite(torch.tensor(norm)):
            raise TrainerError(f"the gradient's norm is {norm}: nothing was updated; a checkpoint is in the output")
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.trained.items()}

    def set_weights(self, weights: dict[str, Tensor]) -> None:
        if weights.keys() != self.trained.keys():
            raise TrainerError("the checkpoint holds other weights than this run trains (another rank, or --full)")
        with torch.no_grad():
            for name, weight in self.trained.items():
                weight.copy_(weights[name])

    def still(self, step: int) -> list[str]:
        """The adapter tensors that have not moved since the start. In a new adapter B is 0, and so is the first
        gradient of A: only from the second step on must all have moved."""
        start = self._start
        return [
            name
            for name, weight in start.items()
            if ("lora_B" in name or step > 1) and torch.equal(weight, self.trained[name])
        ]

    def save(self, folder: Path) -> None:
        """Write an adapter folder that vLLM can load, or the whole model with --full."""
        if hasattr(self.model, "get_base_model"):
            self.model.save_pretrained(folder, save_embedding_layers=False)
        else:
            self.model.save_pretrained(folder)

    def save_merged(self, folder: Path) -> None:
        """The model with the adapter in it, made from a fresh copy: the live base weights are never touched.

        The sum is formed in float32 and rounded once, to the type of the base weights on disk.
        """
        from peft import PeftModel

        adapter = folder.with_name(f"{folder.name}.adapter")
        try:
            self.model.save_pretrained(adapter, save_embedding_layers=False)
            root = str(self.plain.config.name_or_path)
            with _quiet():
                base = AutoModelForCausalLM.from_pretrained(root, dtype=torch.float32, local_files_only=True)
            dtype = getattr(self.plain.config, "dtype", None)
            merged = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
            merged.to(_stored_dtype(root) or dtype).save_pretrained(folder)
            for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
                if (Path(root) / name).is_file():
                    shutil.copy(Path(root) / name, folder / name)
        finally:
            shutil.rmtree(adapter, ignore_errors=True)


def _stored_dtype(root: str) -> torch.dtype | None:
    from transformers import AutoConfig

    return getattr(AutoConfig.from_pretrained(root, local_files_only=True), "dtype", None)


def load(config: TrainConfig, model: str, adapter: str | None) -> Policy:
    """The weights that sampled the rollouts, ready to be trained."""
    device = pick_device(config.device)
    dtype = pick_dtype(config.dtype, device)
    # The updates of a full fine-tune are smaller than bfloat16's steps: its weights stay in float32.
    autocast = config.full and config.dtype == "auto" and dtype == torch.bfloat16
    if autocast:
        dtype = torch.float32
    with _quiet():
        try:
            weights = AutoModelForCausalLM.from_pretrained(
                model, dtype=dtype, attn_implementation=NAME, local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise SettingError(
                f"cannot load the model {model!r} ({str(error).splitlines()[0]}); --model DIR says where it is"
            ) from error
        if not config.full:
            weights = _with_adapter(weights, config, adapter)
    return Policy(
        weights,
        device=device,
        learning_rate=config.learning_rate_used,
        autocast=autocast,
        checkpointing=config.gradient_checkpointing,
    )


def _with_adapter(weights: Any, config: TrainConfig, adapter: str | None) -> Any:
    from peft import LoraConfig, PeftModel, get_peft_model

    if adapter is not None:
        check_adapter(adapter)
        return PeftModel.from_pretrained(weights, adapter, is_trainable=True)
    torch.manual_seed(config.seed)
    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=2 * config.lora_rank,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(weights, lora)


def check_adapter(adapter: str) -> dict[str, Any]:
    """The adapter's configuration. Raises SettingError if there is none, or one that cannot go on."""
    path = Path(adapter) / "adapter_config.json"
    if not path.is_file():
        raise SettingError(f"no adapter in {adapter} (no adapter_config.json); --adapter DIR says where it is")
    found = json.loads(path.read_text())
    if found.get("peft_type") != "LORA":
        raise SettingError(f"the adapter in {adapter} is {found.get('peft_type')}, and only LORA can be continued")
    return found


def pick_device(device: str) -> str:
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def pick_dtype(dtype: str, device: str) -> torch.dtype:
    """On two Zen 4 cores with avx512_bf16, 1,500 tokens of a 135M model with LoRA, forward and backward, took
    6.6 s in bfloat16 against 8.6 s in float32; without that instruction bfloat16 is emulated, and slower."""
    if dtype != "auto":
        return getattr(torch, dtype)
    if device == "cpu":
        return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32
    return torch.bfloat16


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' own progress bars, which would land in the middle of ours."""
    transformers_logging.disable_progress_bar()
    yield

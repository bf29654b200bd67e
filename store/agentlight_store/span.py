"""The record of one LLM call, as it is read back; its bytes on disk are made in `records.py`."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Choice:
    """One sampled completion of a call; ids and log-probs have one entry a sampled token."""

    index: int = 0
    text: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    finish_reason: str | None = None
    completion_ids: array[int] | None = None
    completion_logprobs: array[float] | None = None  # NaN where the server gave none


@dataclass
class Span:
    """One HTTP exchange with a language model.

    `sampling` holds the effective settings as far as they are known: a key that is absent is unknown, never
    neutral. `logprobs_mode` in it is "processed" when the log-probs are those of the distribution that was
    sampled (after temperature and truncation), "raw" when they are the model's own.
    """

    span_id: str = ""
    rollout_id: str = ""
    role: str = "agent"
    pid: int = 0
    dialect: str = ""
    server: str = ""  # host:port
    model: str = ""
    model_root: str | None = None  # path or hub id of the base weights
    policy_version: str | None = None  # the adapter's name
    adapter_root: str | None = None  # the adapter's path
    messages: list[Any] = field(default_factory=list)
    tools: list[Any] | None = None
    prompt_ids: array[int] | None = None
    choices: list[Choice] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)  # input_tokens, output_tokens
    status: str = "ok"  # "ok" | "error" | "partial"
    trainable: bool = False
    reason: str | None = None  # why it is not trainable
    http_status: int | None = None
    started_at: float = 0.0  # epoch seconds
    ended_at: float = 0.0
    error: str | None = None
    trace: str | None = None  # of the agent's own OpenTelemetry span around the call: trace id, "-", span id, in hex
    raw: bytes | None = None  # the reply's beginning, of one that could not be understood

    @property
    def text(self) -> str | None:
        return self.choices[0].text if self.choices else None

    @property
    def tool_calls(self) -> list[dict[str, Any]] | None:
        return self.choices[0].tool_calls if self.choices else None

    @property
    def finish_reason(self) -> str | None:
        return self.choices[0].finish_reason if self.choices else None

    @property
    def completion_ids(self) -> array[int] | None:
        return self.choices[0].completion_ids if self.choices else None

    @property
    def completion_logprobs(self) -> array[float] | None:
        return self.choices[0].completion_logprobs if self.choices else None

    @property
    def timed_out(self) -> bool:
        """By what the HTTP library called its error (ReadTimeout, TimeoutError, ...), or the server's 408 or 504."""
        return self.status != "ok" and ("timeout" in (self.error or "").lower() or self.http_status in (408, 504))

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids) if self.prompt_ids is not None else self.usage.get("input_tokens", 0)

    @property
    def completion_tokens(self) -> int:
        if self.choices and all(choice.completion_ids is not None for choice in self.choices):
            return sum(len(choice.completion_ids or ()) for choice in self.choices)
        return self.usage.get("output_tokens", 0)

"""Which rollouts stay in the store: decided at a rollout's end, when its reward is known."""

from __future__ import annotations

from agentlight_instrumentation import settings
from agentlight_instrumentation.sampling import is_sampled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def variables(options: Any) -> dict[str, str]:
    """What the agent's process is told. With a reward threshold it records all: the decision falls later."""
    told: dict[str, Any] = {settings.CANARY: options.canary, settings.MAX_SPANS: options.max_span_per_minute}
    if options.reward_threshold is None:
        told[settings.SAMPLING_RATE] = options.trace_sampling_rate
    told[settings.STEP_TIMEOUT] = options.max_step_timeout
    told[settings.RETRY_STRATEGY] = None if options.retry_strategy == "none" else options.retry_strategy
    told[settings.PROFILE], told[settings.ASYNC] = options.profile or None, options.async_data_upload or None
    return {name: str(value) for name, value in told.items() if value is not None}


def why_drop(options: Any, rollout_id: str, reward: float | None, over_limit: bool) -> str | None:
    """The reason, or None for a rollout that stays."""
    if over_limit:
        return "over max_span_per_minute"
    rate, threshold = options.trace_sampling_rate, options.reward_threshold
    if rate is None or is_sampled(rollout_id, rate):
        return None
    if threshold is not None and reward is not None and reward >= threshold:
        return None
    return "not sampled"

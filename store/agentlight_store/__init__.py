"""The span store: an embedded, append-only LMDB environment; knows nothing of SDKs, HTTP or training."""

from agentlight_store.rollout import Reward, Rollout
from agentlight_store.span import Choice, Span
from agentlight_store.store import Store, new_rollout_id

__all__ = ["Choice", "Reward", "Rollout", "Span", "Store", "new_rollout_id"]

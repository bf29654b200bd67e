"""The span store: an embedded, append-only LMDB environment; knows nothing of SDKs, HTTP or training."""

TYPE_CHECKING = False  # each name is loaded on first use: the launcher starts an agent before it needs most of them
if TYPE_CHECKING:
    from agentlight_store.ids import new_rollout_id
    from agentlight_store.rollout import Reward, Rollout
    from agentlight_store.span import Choice, Span
    from agentlight_store.store import Store

__all__ = ["Choice", "Reward", "Rollout", "Span", "Store", "new_rollout_id"]
_HOMES = {
    "Choice": "span", "Reward": "rollout", "Rollout": "rollout", "Span": "span", "Store": "store",
    "new_rollout_id": "ids",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value

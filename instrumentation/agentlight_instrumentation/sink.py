"""The process's one open store, opened on the first record and never before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlight_instrumentation import sampling, settings

if TYPE_CHECKING:
    from agentlight_store.span import Span
    from agentlight_store.store import Store

_store: Store | None = None


def store() -> Store:
    """Raises StoreError when the store cannot be opened, LookupError when the process has none."""
    global _store
    if _store is None:
        path = settings.get(settings.STORE)
        if path is None:
            raise LookupError(f"{settings.STORE} is not set: start the agent with agentlight-run")
        from agentlight_store.store import Store

        _store = Store.open(path, create=True)
    return _store


def record(rollout_id: str, span: Span) -> None:
    """Commit the span, unless its rollout is left out. Raises as `store` does."""
    if sampling.is_left_out(rollout_id):
        return
    if settings.get(settings.ASYNC) is None:
        store().append(rollout_id, span)
    else:
        from agentlight_instrumentation import writer

        writer.put(rollout_id, span)

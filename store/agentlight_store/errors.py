"""Every error that agentlight foresees: one line that says what, which, and what now."""


class AgentlightError(Exception):
    """The root; a command-line tool prints its message and no traceback."""


class StoreError(AgentlightError):
    """A store cannot be opened, read or written."""


class StoreMissing(StoreError):
    """There is no store at that path."""


class StoreVersionError(StoreError):
    """The store was written in another version of the format."""


class StoreFull(StoreError):
    """The disk, or the largest map that this machine allows, is full."""


class UnknownRollout(StoreError):
    """No rollout, or more than one, has that id."""

"""What the trainer foresees can go wrong; each message says what, which, and what now."""

from agentlight_store.errors import AgentlightError


class TrainerError(AgentlightError):
    """Training cannot start or go on."""


class NothingToTrain(TrainerError):
    """No call of the stores can be trained on; the message says what was missing, with counts."""


class SettingError(TrainerError):
    """A setting, or what the calls recorded, names something that is not there or does not fit."""


class PublishError(TrainerError):
    """The server did not take the new weights, or does not serve them."""

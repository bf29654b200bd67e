"""Offline GRPO on stored rollouts: `agentlight_trainer.train.train(TrainConfig(stores=("./store",)))`; knows no SDK."""

from agentlight_trainer.config import TrainConfig

__all__ = ["TrainConfig"]

"""Offline GRPO on stored rollouts: `train(TrainConfig(stores=("./store",)))`; knows nothing of agents or SDKs."""

from agentlight_trainer.config import TrainConfig

__all__ = ["TrainConfig", "train"]


def __getattr__(name: str):
    if name == "train":  # importing torch takes seconds, and `--help` needs none of it
        from agentlight_trainer.train import train

        return train
    raise AttributeError(name)

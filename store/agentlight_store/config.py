"""Settings from a YAML file: one list of names for all commands, each of which takes those that are its own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from agentlight_store.errors import AgentlightError

# Name in the file -> the command that it is for, and the name of its flag. Nested as in YAML, joined by dots.
NAMES = {
    "sampling.base_rate": ("run", "trace_sampling_rate"),
    "trace_sampling_rate": ("run", "trace_sampling_rate"),
    "sampling.reward_threshold": ("run", "reward_threshold"),
    "sampling.max_span_per_minute": ("run", "max_span_per_minute"),
    "max_step_timeout": ("run", "max_step_timeout"),
    "retry_strategy": ("run", "retry_strategy"),
    "async_data_upload": ("run", "async_data_upload"),
    "profiling_mode": ("run", "profile"),
    "component": ("both", "component"),
    "component_of_interest": ("both", "component"),
    "policy": ("run", "policy"),
    "policy_model": ("run", "policy_model"),
    "canary": ("run", "canary"),
    "reward": ("run", "reward"),
    "rollout": ("run", "rollout"),
    "role": ("run", "role"),
    "tool": ("run", "tool"),
    "store": ("run", "store"),
    "timeout": ("run", "timeout"),
    "samples": ("run", "samples"),
    "jobs": ("run", "jobs"),
    "learning_rate": ("train", "learning_rate"),
    "warmup_steps": ("train", "warmup_steps"),
    "lora_rank": ("train", "lora_rank"),
    "epochs": ("train", "epochs"),
    "objective": ("train", "objective"),
    "mode": ("train", "objective"),
    "advantage": ("train", "advantage"),
    "aggregation": ("train", "aggregation"),
    "credit_assignment": ("train", "credit"),
    "credit_window": ("train", "credit_window"),
    "gamma": ("train", "gamma"),
    "agent_roles": ("train", "role_gamma"),
    "max_trajectory_length": ("train", "max_turns"),
    "reward_normalizer": ("train", "reward_scale"),
    "debug_trace": ("train", "debug_trace"),
    "snapshot_interval": ("train", "snapshot_interval"),
    "validation": ("train", "validation"),
    "patience": ("train", "patience"),
    "kl": ("train", "kl"),
}


class ConfigError(AgentlightError):
    """The file cannot be read, or holds a name or a value that no command knows."""


def read_config(path: str, command: str) -> dict[str, Any]:
    """Flag name -> value, of the settings that are for `command` ("run" or "train"). Raises ConfigError."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            loaded = yaml.safe_load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(loaded or {}, dict):
        raise ConfigError(f"{path} holds a {type(loaded).__name__}; settings are `name: value`")
    found: dict[str, Any] = {}
    for name, value in _flat(loaded or {}, ""):
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            hint = f"; {near[0]}?" if near else f"; known are {', '.join(NAMES)}"
            raise ConfigError(f"{path}: no setting {name!r}{hint}")
        wanted_by, flag = NAMES[name]
        if wanted_by in (command, "both"):
            if flag in found and found[flag] != value:
                raise ConfigError(f"{path}: {flag} is set twice, to {found[flag]!r} and to {value!r}")
            found[flag] = value
    return found


def _flat(settings: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in NAMES:
            yield from _flat(value, name + ".")
        else:
            yield name, value

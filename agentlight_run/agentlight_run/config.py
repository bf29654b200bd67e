"""Options of `agentlight-run` from a YAML file."""

from __future__ import annotations

from typing import Any

from agentlight_run.cli import OPTIONS, Options
from agentlight_store.config import ConfigError, read_config


def fill(options: Options, path: str) -> None:
    """Set what the command line has left unset. Raises ConfigError."""
    table: dict[str, tuple[str | None, Any]] = {
        flag[2:].replace("-", "_"): (value_name, read) for flag, value_name, read, _ in OPTIONS
    }
    for name, value in read_config(path, "run").items():
        value_name, read = table[name]
        if getattr(options, name) in (None, False, []):
            setattr(options, name, _value(f"{path}: {name}", value, value_name, read))


def _value(where: str, value: Any, value_name: str | None, read: Any) -> Any:
    if value_name is None:
        if isinstance(value, bool):
            return value
        raise ConfigError(f"{where} is {value!r}, not true or false")
    repeats = value_name.endswith("...")
    if isinstance(value, list) and not repeats:
        raise ConfigError(f"{where} is a list; it takes one value")
    read_values = [_read(where, one, read) for one in (value if isinstance(value, list) else [value])]
    return read_values if repeats else read_values[0]


def _read(where: str, value: Any, read: Any) -> Any:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ConfigError(f"{where} is {value!r}, which is no {'text' if read is str else 'number'}")
    try:
        return read(str(value))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None

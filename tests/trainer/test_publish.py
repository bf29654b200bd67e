"""Publishing, against a server that speaks vLLM's routes and answers from a real tiny model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from agentlight_trainer import TrainConfig
from agentlight_trainer.errors import PublishError, SettingError
from agentlight_trainer.publish import Proof, publish
from agentlight_trainer.train import train


class Server:
    """`deaf` accepts an adapter and goes on serving the base: vLLM under a name whose cache it kept."""

    def __init__(self, model: str, deaf: bool) -> None:
        self.model, self.deaf = model, deaf
        self.loaded: dict[str, Any] = {"tiny": AutoModelForCausalLM.from_pretrained(model).eval()}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parents = {name: None if name == "tiny" else "tiny" for name in server.loaded}
                self.answer({"data": [{"id": name, "parent": parent} for name, parent in parents.items()]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.answer(server.load(body) if "lora_path" in body else server.complete(body))

            def answer(self, reply: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def load(self, body: dict[str, Any]) -> str:
        base = AutoModelForCausalLM.from_pretrained(self.model)
        self.loaded[body["lora_name"]] = (
            self.loaded["tiny"] if self.deaf else PeftModel.from_pretrained(base, body["lora_path"]).eval()
        )
        return "Success"

    @torch.no_grad()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = torch.tensor(body["prompt"])
        logprobs = self.loaded[body["model"]](ids[None]).logits[0].log_softmax(-1)
        entries = [{str(int(ids[t])): {"logprob": float(logprobs[t - 1, ids[t]])}} for t in range(1, len(ids))]
        return {"choices": [{"prompt_logprobs": [None, *entries]}]}


@pytest.fixture
def serve(tiny_model: str) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(deaf: bool = False) -> Server:
        started.append(Server(tiny_model, deaf))
        return started[-1]

    yield start
    for server in started:
        server.http.shutdown()
        server.http.server_close()


@pytest.fixture
def config(sampled_store: Callable[..., Path], tmp_path: Path) -> TrainConfig:
    store = str(sampled_store())
    return TrainConfig(
        stores=(store,), output=str(tmp_path / "out"), dtype="float32", learning_rate=1e-2, epochs=1, device="cpu"
    )


def test_the_new_weights_are_served_under_a_name_of_their_own(serve: Callable[..., Server], config: TrainConfig):
    """Twice the same adapter, two names, and a copy on disk for each."""
    server = serve()
    names = [train(replace(config, publish=(server.url,))).published[0] for _ in range(2)]
    assert names[0] is not None
    assert names[0].endswith("-1")
    assert names[1] == names[0][:-1] + "2"
    assert set(server.loaded) == {"tiny", *names}
    assert (Path(config.output) / "published" / names[0] / "adapter_model.safetensors").is_file()


def test_a_server_that_keeps_serving_the_base_is_found_out(serve: Callable[..., Server], config: TrainConfig):
    with pytest.raises(PublishError, match="does not serve it"):
        train(replace(config, publish=(serve(deaf=True).url,)))


def test_what_vllm_cannot_load_is_refused_before_it_is_sent(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "modules_to_save": ["lm_head"]}')
    with pytest.raises(PublishError, match="lm_head"):
        publish("http://127.0.0.1:9", tmp_path, None, [])  # type: ignore[arg-type] # refused before it is used


def test_a_full_fine_tune_cannot_be_published(config: TrainConfig):
    with pytest.raises(SettingError, match="--full makes none"):
        train(replace(config, full=True, publish=("http://127.0.0.1:9",)))


def test_a_server_that_is_not_there_is_one_error(config: TrainConfig):
    """The adapter stays on disk."""
    with pytest.raises(PublishError, match="cannot be reached"):
        train(replace(config, publish=("http://127.0.0.1:9",)))
    assert (Path(config.output) / "adapter" / "adapter_model.safetensors").is_file()


def test_a_change_within_rounding_is_said_and_not_judged():
    """Moved by 0.04 where rounding alone moves by 0.03: nothing is proven, either way. Three times that is clear."""
    unclear = Proof(served=0.05, expected=0.04, slope=0.3, gap=0.04, noise=0.03)
    assert not unclear.is_clear and "too little to tell from rounding (0.030)" in str(unclear)
    assert Proof(served=0.12, expected=0.12, slope=1.0, gap=0.04, noise=0.03).is_clear

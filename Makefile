# `make train` and `make test` set up everything in .venv the first time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
CONFIG ?= configs/bcmf_varsize.yaml
TORCH := torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: train test fast lint setup clean

train: setup
	$(BIN)/python train.py $(CONFIG) $(ARGS)

test: setup
	$(BIN)/python -m pytest $(ARGS)

fast: setup
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY)

# torch comes first: torch-scatter compiles against the one that is installed.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip setuptools wheel ninja
	$(BIN)/pip install --quiet $(TORCH) numpy
	$(BIN)/pip install --quiet $(TORCH) -e '.[dev]'
	@echo "building torch-scatter, about 5 minutes ..."
	@MAX_JOBS=$$(getconf _NPROCESSORS_ONLN) \
	  $(BIN)/pip install --quiet --no-build-isolation torch-scatter \
	  > $(VENV)/torch-scatter.log 2>&1 \
	  || echo "torch-scatter could not be built: PyG's own scatter serves instead" \
	          "(log: $(VENV)/torch-scatter.log)"
	@touch $@

clean:
	rm -rf $(VENV)

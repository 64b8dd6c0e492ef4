# `make train` and `make test` set up everything in .venv the first time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
CONFIG ?= configs/bcmf_varsize.yaml
TORCH := torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SCATTER := $(VENV)/.scatter

.PHONY: train test fast lint wheel setup scatter clean

train: setup
	$(BIN)/python train.py $(CONFIG) $(ARGS)

test: setup scatter
	$(BIN)/python -m pytest -n auto $(ARGS)

fast: setup
	$(BIN)/python -m pytest -n auto -m "not slow" $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: setup
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

setup: $(READY)

scatter: $(SCATTER)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip setuptools wheel ninja
	$(BIN)/pip install --quiet $(TORCH) -e '.[dev]'
	@touch $@

# Optional: a faster path for backend="scatter". It compiles against the torch that is
# installed, so it comes after it; the tests cover both paths.
$(SCATTER): $(READY)
	@echo "building torch-scatter for the tests, about 5 minutes ..."
	@MAX_JOBS=$$(getconf _NPROCESSORS_ONLN) \
	  $(BIN)/pip install --quiet --no-build-isolation torch-scatter \
	  > $(VENV)/torch-scatter.log 2>&1 \
	  || echo "torch-scatter could not be built: PyG's own scatter is used instead" \
	          "(log: $(VENV)/torch-scatter.log)"
	@touch $@

clean:
	rm -rf $(VENV)

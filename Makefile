# `make train` and `make test` set up everything in .venv the first time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
CONFIG ?= configs/bcmf_varsize.yaml
TORCH := torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SCATTER := $(VENV)/.scatter

.PHONY: train test fast lint docs wheel setup scatter clean

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

# The tutorials are executed on the way; warnings are errors. No file is loaded from the
# network, neither here nor by the pages.
docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -j auto -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

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
	rm -rf $(VENV) docs/_build

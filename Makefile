# Two commands do everything: `make demo` and `make test`. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint runtimes bench clean

help:
	@echo "make demo      train on a sample sensor log, under a budget, and look at the result"
	@echo "make test      set up all that the tests need, and run them"
	@echo "make lint      ruff"
	@echo "make runtimes  fetch the MicroPython runtimes that the tests use"
	@echo "make bench     pure Python beside scikit-learn, in one run"
	@echo "make clean     remove what these made"

$(VENV)/demo: pyproject.toml
	@echo "== making $(VENV) and installing edgeforest (no dependencies)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "EdgeForest needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/test: $(VENV)/demo
	@echo "== installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: $(VENV)/demo
	@echo "== edgeforest demo"
	@$(BIN)/edgeforest demo
	@echo
	@echo "(The command is $(BIN)/edgeforest; '. $(BIN)/activate' puts it on your path.)"

runtimes:
	@echo "== looking for the MicroPython runtimes"
	@$(PYTHON) tools/get_runtimes.py

lint: $(VENV)/test
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

test: lint runtimes
	@echo "== pytest"
	@$(BIN)/python -m pytest

bench: $(VENV)/test
	@$(BIN)/python benchmarks/pure_vs_sklearn.py

clean:
	rm -rf $(VENV) .runtimes build dist *.egg-info .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

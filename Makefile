# Two commands do everything: `make demo` and `make test`. Both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
KERNEL := setup.py $(wildcard edgeforest/engines/*.[ch] firmware/kernel/*.[ch])

.PHONY: help demo check test lint runtimes bench firmware wheel wheels clean

help:
	@echo "make demo      train on a sample sensor log, under a budget, and look at the result"
	@echo "make check     ruff, types, and quick tests that need nothing fetched: under a minute"
	@echo "make test      set up all that the tests need, and run them"
	@echo "make lint      ruff"
	@echo "make runtimes  fetch what the tests use: MicroPython, an emulated board, onnxruntime, a browser"
	@echo "make bench     pure Python beside scikit-learn, in one run"
	@echo "make firmware  build what boards load, for every processor, into dist/firmware/"
	@echo "make wheel     build both wheels into dist/, and look inside them"
	@echo "make wheels    build wheels for Raspberry Pis, glibc and musl into dist/, with Zig's compiler"
	@echo "make clean     remove what these made"

$(VENV)/demo: pyproject.toml $(KERNEL)
	@echo "== making $(VENV) and installing edgeforest (no dependencies)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "EdgeForest needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --editable .
	@touch $@

# What pyproject.toml lists as `test`, alone: to install edgeforest again would compile the kernel again.
# Python compiles what is imported when that is first done: a small part of all these packages.
define NEEDED
import tomllib
with open("pyproject.toml", "rb") as stream:
    print(*tomllib.load(stream)["project"]["optional-dependencies"]["test"], sep="\n")
endef
$(VENV)/test: export NEEDED := $(NEEDED)
$(VENV)/test: $(VENV)/demo
	@echo "== installing what the tests need"
	@$(BIN)/python -c "$$NEEDED" > $(VENV)/needed
	@$(PIP) install --quiet --no-compile --requirement $(VENV)/needed
	@touch $@

demo: $(VENV)/demo
	@echo "== edgeforest demo"
	@$(BIN)/edgeforest demo
	@echo
	@echo "(The command is $(BIN)/edgeforest; '. $(BIN)/activate' puts it on your path.)"

runtimes:
	@echo "== looking for the runtimes"
	@$(PYTHON) tools/get_runtimes.py

lint: $(VENV)/test
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# Tests start Python hundreds of times: each would compile all files again, were the result not kept.
check test: export PYTHONDONTWRITEBYTECODE =

# What a change breaks most often: style, types, the rules of the house, models of earlier releases,
# documents, and the same forest from every engine.
QUICK := house types rng formats docs repository walking engine_options
check: lint
	@echo "== types and quick tests"
	@$(BIN)/python -m pytest -n auto --dist load -q $(QUICK:%=tests/test_%.py)

# Pytest rewrites the asserts of each file once and keeps that. Two workers that begin together would both do it:
# it is done beforehand, while runtimes are fetched. What fails here fails again where it is seen.
$(VENV)/rewritten: $(VENV)/test $(wildcard tests/*.py)
	@$(BIN)/python -m pytest --collect-only -q > $@ 2>&1 || true

# So does mypy, for the test that calls it with the same options.
$(VENV)/typed: $(VENV)/test $(wildcard edgeforest/*.py edgeforest/*/*.py export/*.py)
	@$(BIN)/python -m mypy --strict $(CURDIR)/edgeforest $(CURDIR)/export > $@ 2>&1 || true

# One worker more than there are cores: tests wait for processes and disks for a sixth of their time.
# Files in the order of their names: by their number of tests, those of a few slow ones would come last.
# Packages and runtimes are fetched at the same time.
test:
	@$(MAKE) --no-print-directory -j3 lint runtimes $(VENV)/rewritten $(VENV)/typed
	@echo "== pytest"
	@$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(1 + (os.cpu_count() or 1))') \
	  --dist loadfile --no-loadscope-reorder --durations=15

bench: $(VENV)/test
	@$(BIN)/python -m benchmarks.pure_vs_sklearn

firmware: $(VENV)/test
	@echo "== building for boards"
	@$(BIN)/python firmware/build.py

# Once for this platform, once for everywhere. What an earlier build left in build/ is not asked for.
wheel: $(VENV)/demo
	@rm -rf build dist
	@echo "== building for this platform"
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python tools/check_wheel.py --native dist/*.whl
	@echo "== building for everywhere"
	@EDGEFOREST_PURE=1 $(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python tools/check_wheel.py dist/*-py3-none-any.whl

# For other processors: compiled here, and looked into; tools/try_wheels.py runs them.
wheels: $(VENV)/demo
	@$(BIN)/python tools/get_runtimes.py --strict zig
	@echo "== building for small computers"
	@$(BIN)/python -c 'import setuptools' 2>/dev/null || $(PIP) install --quiet 'setuptools>=77'
	@$(BIN)/python tools/make_wheels.py

clean:
	rm -rf $(VENV) .runtimes build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache
	rm -f edgeforest/engines/*.so edgeforest/engines/*.pyd
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
OLDEST := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)

# Kernels of OpenBLAS, from old processors to new ones; one that this processor cannot run is left out.
KERNELS := Nehalem Haswell SkylakeX
OWN_KERNEL := import numpy, threadpoolctl; print(threadpoolctl.threadpool_info()[0].get("architecture"))
MULTIPLY := import numpy, scipy.linalg.blas as blas; a = numpy.ones((99, 99)); a @ a; blas.dgemm(1.0, a, a)

FRAMEWORKS := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["frameworks"])

RESOLVE := .lock/bin/uv pip compile -q --upgrade --no-annotate --custom-compile-command "make lock" --all-extras pyproject.toml

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help env demo test test-slow test-oldest test-processors test-frameworks bench docs lint format lock dist clean

help: ## list the targets
	@echo "make <target> [PYTHON=python3] [ARGS=...]; .venv is set up on first use"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-17s %s\n", $$1, $$2 }'

env: .venv/.dev ## set up .venv from the lock

demo: .venv/.dev ## write demo-report.html: theory against trained networks
	$(BIN)/learndyn demo --output demo-report.html $(ARGS)

test: .venv/.dev ## run the quick tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(ARGS)

test-slow: .venv/.dev ## run the slow tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow $(ARGS)

test-oldest: .venv-oldest/.dev ## run the quick tests with the oldest versions allowed, on the oldest Python allowed
	# Old packages warn of new ones that they meet; that is not for learndyn to mend.
	.venv-oldest/bin/python -m pytest -n 2 --dist loadfile -m "not slow" -W default $(ARGS)

test-processors: .venv/.dev ## run the tests of equality with the kernels of other processors
	@own=$$($(BIN)/python -c '$(OWN_KERNEL)'); \
	for kernel in $(KERNELS); do \
	  if [ "$$kernel" = "$$own" ]; then echo "kernels of $$kernel: those of make test"; continue; fi; \
	  export OPENBLAS_CORETYPE=$$kernel; \
	  if $(BIN)/python -c '$(MULTIPLY)' 2> /dev/null; then \
	    echo "kernels of $$kernel:"; \
	    $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "bitwise and not slow" $(ARGS) || exit 1; \
	  else \
	    echo "kernels of $$kernel: not for this processor"; \
	  fi; \
	done

test-frameworks: .venv-frameworks/.dev ## train the programs of recipes with PyTorch and optax
	.venv-frameworks/bin/python -m pytest -n 2 tests/frameworks $(ARGS)

bench: .venv/.dev ## measure speed and memory
	$(BIN)/python -m benchmarks $(ARGS)

docs: .venv/.docs ## build docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html $(ARGS)

# Pyright uses one core: package and tests are checked at once.
lint: .venv/.dev ## check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/pyright & package=$$!; $(BIN)/pyright -p tests; tests=$$?; wait $$package && exit $$tests

format: .venv/.dev ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: .lock/bin/uv ## resolve the newest and the oldest versions allowed into requirements/
	$(RESOLVE) --universal --python-version $(OLDEST) --group dev -o requirements/dev.txt
	$(RESOLVE) --universal --python-version $(OLDEST) --group dev --group docs -o requirements/docs.txt
	$(RESOLVE) --resolution lowest-direct --python-version $(OLDEST) --python-platform linux --group dev -o requirements/oldest.txt

dist: .venv/.dev ## build the wheel and the source package into dist/, and check that the wheel installs
	rm -rf dist .dist
	$(BIN)/hatchling build
	$(PYTHON) -m venv .dist
	@.dist/bin/pip --disable-pip-version-check -qq install -c requirements/dev.txt dist/*.whl
	.dist/bin/learndyn theories > /dev/null
	rm -rf .dist

clean: ## remove everything these targets make, .venv included
	rm -rf .venv .venv-oldest .venv-frameworks .lock .dist docs/_build demo-report.html dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.dev: pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys, ensurepip; sys.exit(sys.version_info < tuple(map(int, "$(OLDEST)".split("."))))' 2>/dev/null || { \
	  found=$$($(PYTHON) --version 2>/dev/null | head -n 1); \
	  echo "learndyn needs Python $(OLDEST) or newer, with venv; $(PYTHON) is $${found:-not there}." >&2; \
	  echo "Name another with make PYTHON=/path/to/python (on Debian, venv is in the package python3-venv)." >&2; \
	  exit 1; }
	@echo "setting up .venv (about a minute the first time)"
	@$(PIP) --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(PIP) install -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv-oldest/.dev: pyproject.toml requirements/oldest.txt
	python$(OLDEST) -m venv --clear .venv-oldest
	@.venv-oldest/bin/python -m pip --disable-pip-version-check -qq install -r requirements/oldest.txt
	@.venv-oldest/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation -e .
	@touch $@

# Where pip would fetch PyTorch with CUDA, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu gives the small build.
.venv-frameworks/.dev: pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv --clear .venv-frameworks
	@.venv-frameworks/bin/python -m pip --disable-pip-version-check -qq install -r requirements/dev.txt
	@.venv-frameworks/bin/python -m pip --disable-pip-version-check -qq install -c requirements/dev.txt \
	  $$(.venv-frameworks/bin/python -c '$(FRAMEWORKS)')
	@.venv-frameworks/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation -e .
	@touch $@

.lock/bin/uv:
	$(PYTHON) -m venv .lock
	@.lock/bin/pip --disable-pip-version-check -qq install uv

.venv/.docs: .venv/.dev requirements/docs.txt
	@$(PIP) install -r requirements/docs.txt
	@touch $@

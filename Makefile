# `make` lists the targets. Each one that needs it builds .venv first, and again when its inputs change.
# Another interpreter: make PYTHON=/usr/bin/python3.12 test

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python)
WORKERS ?= 2

# Sets the shell variable `python` to the first usable interpreter.
FIND_PYTHON = python=; for candidate in $(PYTHONS); do \
	  if "$$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "No usable Python >= 3.11 with the venv module among: $(PYTHONS)." >&2; \
	  echo "Install one (on Debian and Ubuntu also its -venv package), or name it: make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test bench docs format lock clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: .venv/.installed  ## run the demonstration
	@$(BIN)/python examples/demo.py

# pytest comes last, so that its summary closes the output.
test: .venv/.installed  ## lint, format check, types, layers, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n $(WORKERS)

bench: .venv/.installed  ## run the benchmarks, on one core
	$(BIN)/pytest benchmarks --benchmark-only --benchmark-sort=fullname --benchmark-columns=min,median,iqr,rounds

docs: .venv/.installed  ## write docs/reference.md from the code
	$(BIN)/python docs/generate.py

format: .venv/.installed  ## sort imports, apply safe fixes, format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## pin the newest versions pyproject.toml allows, into requirements.lock
	@$(FIND_PYTHON); \
	echo "lock: resolving with $$python"; \
	trap 'rm -rf .lock-venv' EXIT; \
	"$$python" -m venv --clear .lock-venv && \
	.lock-venv/bin/python -m pip --disable-pip-version-check install -qq hatchling editables && \
	.lock-venv/bin/python -m pip --disable-pip-version-check install -qq --no-build-isolation -e '.[dev]' && \
	{ sed '/^[^#]/,$$d' requirements.lock; \
	  .lock-venv/bin/python -m pip freeze --exclude-editable; } > .lock-venv/new && \
	mv .lock-venv/new requirements.lock

clean:  ## remove caches and builds; .venv stays
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks .lock-venv dist build
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The lock file holds everything, the build backend included, so nothing is resolved here.
.venv/.locked: requirements.lock
	@$(FIND_PYTHON); \
	echo "setup: building .venv with $$("$$python" --version) and the versions of requirements.lock"; \
	"$$python" -m venv --clear .venv
	@$(PIP) install -qq --no-deps -r requirements.lock
	@touch $@

# `pip check` fails when pyproject.toml asks for something that the lock file lacks.
.venv/.installed: .venv/.locked pyproject.toml
	@echo "setup: installing slotwise, editable"
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@$(PIP) check
	@touch $@

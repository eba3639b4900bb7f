# Everything works on a machine that has only Python 3.11 or 3.12 and make: each target sets up what it needs.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

STEPS ?= 12k
VENV := .venv
# A virtual environment cannot be moved: its stamp counts only in the directory it was made in.
STAMP := $(VENV)/.setup-done-$(shell pwd -P | cksum | cut -d' ' -f1)
PYTEST := $(VENV)/bin/python -m pytest
# Else each of the many processes of the tests compiles all modules, and rewrites all asserts, again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup train test check lint types lock clean test-table test-suite test-kill test-attack test-learning test-statistics test-browser results test-cluster

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from requirements.lock (PYTHON=... to choose the interpreter)

$(STAMP): requirements.lock pyproject.toml scripts/setup
	@rm -f $@
	@PYTHON="$(PYTHON)" scripts/setup
	@touch $@

train: setup ## train DAC on cartpole-swingup with two seeds (STEPS=12k)
	$(VENV)/bin/dualac train dac dmc/cartpole-swingup --seeds 2 --steps $(STEPS) --warmup 2k --eval-every 2k --out runs/cartpole

test: setup ## the fast tests
	$(PYTEST)

check: lint types test ## all that must hold before a commit: format, lint, types, fast tests

lint: setup ## ruff, formatting and rules
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check

types: setup ## pyright
	@# Without the variable it asks the network for a newer version of itself.
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright

test-table: setup ## slow: what holds for every row, for the rows that the fast tests leave out
	$(PYTEST) -m table

test-suite: setup ## slow: every task resets and steps
	$(PYTEST) -m suite

test-kill: setup ## slow: runs killed over and over, and resumed
	$(PYTEST) -m kill

test-attack: setup ## slowest: kills, full disks, damage, bad environments (ATTACK_SHARE=0.02 for a part; docs/attack.md)
	$(PYTEST) -m attack -n0

test-statistics: setup ## slow: intervals against rliable's, and what they cover
	$(PYTEST) -m statistics

test-browser: setup ## slow: the report in a real browser (scripts/install-browser gets one)
	scripts/install-browser
	$(PYTEST) -m browser -n0

results: setup ## make results/README.md and its figures anew from the runs kept there
	$(VENV)/bin/dualac report $(addprefix results/,cheetah-run walker-run small-sweep suites) --format md --out results/README.md --title "Results"

test-cluster: setup ## slow: sweeps on a Ray cluster of this machine that loses its workers and raylets
	$(PYTEST) -m cluster -n0

test-learning: setup ## slowest: real training to a threshold
	$(PYTEST) -m learning -n0

lock: setup ## bring requirements.lock up to pyproject.toml (UPGRADE=1 for the newest versions within its bounds)
	$(VENV)/bin/uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 --fork-strategy fewest \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade) --output-file requirements.lock

clean: ## remove .venv, caches and builds; runs/ stays
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
	find src tests scripts benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One set of commands for people and for CI. Each works as the first command in a fresh clone.
# No logic here: what a target does belongs to the program that it calls.

PYTHON := .venv/bin/python
STAMP := .venv/.installed
ARGS ?=
DEMO ?=
# Tests start hundreds of processes: without it each would compile the whole program.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup clients demo fix check test deep e2e bench ratios dashboards docs mutants pins all

setup: $(STAMP)

$(STAMP): requirements-dev.txt pyproject.toml compiler/hatch_build.py compiler/deuz_compiler/wires/_scanner.c compiler/deuz_compiler/wires/_hashing.h proxy/deuz_proxy/sinks/_span_items.c proxy/deuz_proxy/sources/_best_rows.c
	@echo "setting up .venv, once: 1 to 2 minutes"
	test -x $(PYTHON) || python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --no-deps --requirement requirements-dev.txt
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# What tests of real clients install through npm; without it they do when they come to it.
clients:
	mkdir -p .venv/agents
	cp tests/clients/agents.json .venv/agents/package.json
	npm install --no-package-lock --no-audit --no-fund --prefix tests/clients
	npm install --no-package-lock --no-audit --no-fund --prefix .venv/agents

demo: setup
	$(PYTHON) -m deuz_proxy demo $(DEMO) $(ARGS)

fix: setup
	.venv/bin/ruff check --fix --quiet .
	.venv/bin/ruff format .

check: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/mypy dashboards
	.venv/bin/lint-imports

test: setup
	$(PYTHON) -m pytest -m "not e2e" --numprocesses 2 $(ARGS)

# By file: tests of one file share what they start, a Prometheus or an installed agent.
# Three on two cores: often one of them waits for an installer or a process to start.
# Not the files with most tests first, but those that take longest (tests/conftest.py).
e2e: setup
	$(PYTHON) -m pytest -m e2e --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

deep: setup
	$(PYTHON) -m pytest -m "not e2e" --hypothesis-profile deep $(ARGS)

bench: setup
	$(PYTHON) -m tests.bench --out artifacts/bench.json $(ARGS)

# Compares what the last benchmark measured with generous bounds.
ratios: setup
	$(PYTHON) -m tests.bench.check_ratios artifacts/bench.json

dashboards: setup
	$(PYTHON) -m dashboards.boards

docs: setup dashboards
	PYTHONPATH=tests/support $(PYTHON) -m deuz_testing.docs

mutants: setup
	$(PYTHON) -m tests.mutation $(ARGS)

pins:
	uv pip compile pyproject.toml requirements-build.in --group dev --universal \
	  --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --output-file requirements-dev.txt
	uv pip compile pyproject.toml --universal --python-version 3.11 --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links \
	  --constraints requirements-dev.txt --output-file requirements.txt

# Everything a change must survive; the benchmark in its short form.
all: check test e2e
	$(MAKE) bench ARGS=--short

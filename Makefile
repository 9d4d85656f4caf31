# Python 3.11 or newer, pip and make are all that these commands need.
#
#   make test     lint, types, tests and two minutes of fuzzing, in .venv
#   make demo     the whole path on a real model, in .venv-demo
#   make bench    the numbers of docs/benchmarks.md
#   make docs     docs/_build/html
#   make fuzz     what `make test` does not have the time for
#
# A virtual environment is made on first use and again when pyproject.toml or constraints.txt change.
# PYTHON chooses the interpreter, PIP_FLAGS goes to pip (for an index with CPU builds of torch, say).

PYTHON ?= python3
PIP_FLAGS ?=
VENV ?= .venv
DEMO_VENV ?= .venv-demo
PYTEST_FLAGS ?=
PYTEST_JOBS ?= 2
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=

PY := $(VENV)/bin/python
DEMO_PY := $(DEMO_VENV)/bin/python
INPUTS := pyproject.toml constraints.txt

export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUTF8 := 1

.PHONY: help test lint types unit format fuzz fuzz-short bench demo docs hooks lock clean
.DELETE_ON_ERROR:

help:
	@sed -n '3,8s/^#//p' Makefile

test: lint types unit fuzz-short

lint: $(VENV)/.test
	$(PY) -m ruff check
	$(PY) -m ruff format --check

types: $(VENV)/.test
	$(PY) -m mypy

# Files of tests go to PYTEST_JOBS processes, each with one thread of torch.
unit: $(VENV)/.test
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(PYTEST_JOBS) --dist loadfile $(PYTEST_FLAGS)

format: $(VENV)/.test
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

# The targets for header, index, config document and torchao's metadata, two at a time, from the
# corpus of the repository and with the same random numbers each time.
fuzz-short: $(VENV)/.test
	$(PY) -m tests.fuzz.run --named --fixed --jobs 2 --seconds $(FUZZ_SECONDS)

# Many more examples than `make test` tries, and other ones each time; then each target of
# tests/fuzz for FUZZ_SECONDS. What fails is kept in .fuzz.
fuzz: $(VENV)/.test
	$(PY) -m pytest --hypothesis-profile=fuzz $(PYTEST_FLAGS)
	$(PY) -m tests.fuzz.run --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

bench: $(VENV)/.test
	@for script in tests/benchmarks/bench_*.py; do \
	    echo "== $$script"; \
	    $(PY) -m tests.benchmarks.$$(basename $$script .py) || exit 1; \
	done

demo: $(DEMO_VENV)/.demo
	$(DEMO_PY) -m demo

docs: $(VENV)/.docs
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

hooks: $(VENV)/.test
	$(PY) -m pre_commit install

# What pip takes today, for all extras, becomes constraints.txt; torch and torchao stay as they are.
lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	grep -E '^(torch|torchao)==' constraints.txt > $(VENV)-lock/pins.txt
	$(VENV)-lock/bin/python -m pip install -qq $(PIP_FLAGS) -c $(VENV)-lock/pins.txt \
	    -e '.[cli,demo,dev,docs,fuzz,test]'
	sed -n '/^#/p' constraints.txt > $(VENV)-lock/new.txt
	$(VENV)-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' \
	    >> $(VENV)-lock/new.txt
	mv $(VENV)-lock/new.txt constraints.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(DEMO_VENV) build dist docs/_build .demo \
	    .fuzz .hypothesis .mypy_cache .pytest_cache .ruff_cache

# make_venv FOLDER, EXTRAS
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "qconfig needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing $(2) into $(1): about a minute, once."
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install -qq $(PIP_FLAGS) -c constraints.txt -e '.[$(2)]'
	@touch $@
endef

$(VENV)/.test: $(INPUTS)
	$(call make_venv,$(VENV),cli$(comma)dev$(comma)fuzz$(comma)test)

$(VENV)/.docs: $(VENV)/.test
	$(call make_venv,$(VENV),docs)

$(DEMO_VENV)/.demo: $(INPUTS)
	$(call make_venv,$(DEMO_VENV),cli$(comma)demo)

comma := ,

# `make help` lists what there is. Settings, given behind a target: make demo LIMIT=20 PY=python3.12
PY ?= python3
VENV ?= .venv
OUT ?= runs
GAMMA ?= 0.3,0.5,0.7,1.0
LIMIT ?=
ARGS ?=
PIP_ARGS ?= -c constraints.txt

BIN := $(VENV)/bin
BCRBENCH := $(BIN)/bcrbench
OPTIONS := $(if $(LIMIT),--limit $(LIMIT)) $(ARGS)
# Stamps: what is newer than these is installed again, nothing else is. Another PY makes the environment anew.
MADE := $(VENV)/.made-by-$(subst /,-,$(PY))
RUNS := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
DECLARED := pyproject.toml constraints.txt bcrbench/__init__.py

.DEFAULT_GOAL := help
.PHONY: help demo test lint wheel clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z%]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' Makefile
	@echo 'settings:   PY=python3.12  VENV=folder  OUT=folder of logs  LIMIT=items of the demo  ARGS="more options"'

demo: $(RUNS) ## install, run Dense and the gate sweep on the bundled model, print the statistics
	$(BCRBENCH) sweep --gamma $(GAMMA) --out $(OUT) $(OPTIONS)
	$(BCRBENCH) stats $(OUT)/*.jsonl --vs dense

test: $(DEV) ## install with the test tools, run the tests
	$(BIN)/python -m pytest $(ARGS)

lint: $(DEV) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

table%: $(RUNS) ## run a recipe such as table3 into OUT/table3 and print its table; ARGS="--model DIR --data FILE"
	$(BCRBENCH) sweep $@ --out $(OUT)/$@ $(OPTIONS)
	@mkdir -p outputs
	@$(BCRBENCH) stats $(OUT)/$@ --vs dense --format md > outputs/$@.md.new
	@mv outputs/$@.md.new outputs/$@.md
	@cat outputs/$@.md

wheel: $(DEV) ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## remove builds and the tools' caches; environment, logs and outputs stay
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find bcrbench tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment too
	rm -rf .venv

$(MADE):
	@$(PY) -c 'import sys; v = sys.version_info; v >= (3, 10) or sys.exit("$(PY) is Python %d.%d, expected 3.10 or newer; try: make PY=python3.12 ..." % v[:2])'
	$(PY) -m venv $(if $(wildcard $(VENV)/.made-by-*),--clear) $(VENV)
	@touch $@

$(RUNS): $(MADE) $(DECLARED)
	$(BIN)/python -m pip install $(PIP_ARGS) -e .
	@touch $@

$(DEV): $(MADE) $(DECLARED)
	$(BIN)/python -m pip install $(PIP_ARGS) -e '.[dev]'
	@touch $@ $(RUNS)

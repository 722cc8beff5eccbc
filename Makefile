# `make help` lists what there is. Settings, given behind a target: make table3 PROFILE=demo LIMIT=20 PY=python3.12
PY ?= python3
VENV ?= .venv
OUT ?= runs
GAMMA ?= 0.3,0.5,0.7,1.0
PROFILE ?= auto
LIMIT ?=
MODEL ?=
EXECUTOR ?=
ARGS ?=
PIP_ARGS ?= -c constraints.txt

BIN := $(VENV)/bin
BCRBENCH := $(BIN)/bcrbench
OPTIONS := $(if $(LIMIT),--limit $(LIMIT)) $(ARGS)
# In quotes, as folders may have spaces, so the shell no longer reads ~; nothing given is the default, not the root.
LOGS := "$(patsubst ~/%,$(HOME)/%,$(or $(OUT),runs))"
# Stamps: what is newer than these is installed again, nothing else is. Another PY makes the environment anew.
MADE := $(VENV)/.made-by-$(subst /,-,$(PY))
RUNS := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
DECLARED := pyproject.toml constraints.txt bcrbench/__init__.py

TABLES := table1 table2 table3 table4 table5 table6 table7 table8 table9 table10 table11 table12 table13 table14 table15 figure2
SWEPT = $(OPTIONS) $(if $(MODEL),--model "$(patsubst ~/%,$(HOME)/%,$(MODEL))") $(if $(EXECUTOR),--executor "$(EXECUTOR)")

.DEFAULT_GOAL := help
.PHONY: help demo bench test lint wheel clean distclean all-tables $(TABLES)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' Makefile
	@echo 'table3     sweep a recipe into OUT/PROFILE, grade, render to outputs/table3.{md,csv,tex,json}; also'
	@echo '           table1 to table15, and figure2'
	@echo 'settings:  PY=python3.12  VENV=folder  OUT=folder of logs  LIMIT=items  ARGS="more options of sweep"'
	@echo '           of tables: PROFILE=auto, paper or demo  MODEL=name  EXECUTOR=local or ray'

demo: $(RUNS) ## install, run Dense and the gate sweep on the bundled model, print the statistics
	$(BCRBENCH) sweep --gamma $(GAMMA) --out $(LOGS) $(OPTIONS)
	$(BCRBENCH) stats $(LOGS)/*.jsonl --vs dense

bench: $(RUNS) ## time dense, reuse and repair beside their bounds, into outputs/bench-MACHINE.md
	$(BCRBENCH) bench --out $(LOGS)/bench --save outputs $(if $(MODEL),--model "$(patsubst ~/%,$(HOME)/%,$(MODEL))") $(ARGS)

test: $(DEV) ## install with the test tools, run the tests
	$(BIN)/python -m pytest $(ARGS)

lint: $(DEV) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

# A failed run does not keep the others from being shown; a mistake or a stop does. Runs that are there are not repeated.
$(TABLES): $(RUNS)
	@profile=$$($(BIN)/python -m bcrbench.sweep.profiles "$(or $(PROFILE),auto)") || exit; runs=$(LOGS)/$$profile; failed=0; \
	$(BCRBENCH) sweep $@ --profile $$profile --out "$$runs" $(SWEPT) || failed=$$?; \
	test $$failed -le 1 || exit $$failed; \
	$(GRADE) && $(BCRBENCH) stats "$$runs" --recipe $@ --profile $$profile --save outputs && exit $$failed

# Graders beside a run's own, and the verdicts of programs that a run left ungraded.
GRADE = set -- "$$runs"/mmlu.*.jsonl && { ! test -e "$$1" || $(BCRBENCH) grade "$$@" \
	$(patsubst %,--grader %,letter-substring first-letter last-letter answer-is single-letter); } && \
	set -- "$$runs"/humaneval.*.jsonl && { ! test -e "$$1" || $(BCRBENCH) grade "$$@" --allow-code-execution; }

all-tables: $(RUNS) ## every table and the figure, each that fails named at the end
	@failed=; for target in $(TABLES); do echo "== $$target"; $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

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

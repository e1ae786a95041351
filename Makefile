# Two commands do everything: `make demo` and `make test`. Both set up what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-spark test-faults test-all check bench floors sample clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/' | column -t -s '|'

setup: $(STAMP) ## Make the virtual environment and install hybridview with its tools

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(STAMP)

.PHONY: java
java:
	@command -v $${JAVA_HOME:+$$JAVA_HOME/bin/}java >/dev/null 2>&1 || { \
	  echo "Spark needs Java 17 or newer. Install it with: apt-get install openjdk-17-jre-headless" >&2; exit 2; }

demo: $(STAMP) java ## Watch views follow three days of changes in a shop
	@$(BIN)/hybridview demo

test: check test-fast test-spark ## Run every check and test (under 20 minutes on 2 cores)

test-fast: $(STAMP) ## Run the tests that need no JVM
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not spark and not long"

test-spark: $(STAMP) java ## Run the tests on Spark and Delta Lake, and some of the fault tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "spark and not long and not faults"
	$(BIN)/python -m pytest -n 2 -m "faults and spark and not long"

test-faults: $(STAMP) java ## Kill refreshes at every point, race them, soak a store for 10 minutes
	$(BIN)/python -m pytest -n 2 tests/faults

test-all: check java ## Run everything but test-faults: 10,000 random cases, all tests on Spark
	HV_CASES=10000 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not spark"
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "spark and not faults"

check: $(STAMP) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layering.py

bench: $(STAMP) java ## Measure refreshes against recomputes and MERGEs by hand (some 20 minutes)
	$(BIN)/hybridview bench --quick --no-floors --folder bench-data

floors: $(STAMP) java ## Measure fixed costs: of commands, of small changes, of many views (some 7 minutes)
	$(BIN)/hybridview bench --queries none --folder bench-data

sample: $(STAMP) ## Make sample_data anew
	$(BIN)/python sample_data/generate.py

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Needs python3 (3.11 or newer) and make. Everything else is installed into .venv from requirements/lock.txt.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CODE := src papers/src tests benchmarks
# Compiled modules are kept, wherever the environment forbids it: in .venv, so that none lie among the sources.
# Each worker begins with its half of the files, so that what a file's tests share is made once; who is done first takes
# tests from the other.
PYTEST := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/pycache $(BIN)/python -m pytest -n 2 --dist worksteal -q

.DEFAULT_GOAL := help
.PHONY: help demo test test-all soak fuzz lint types docs bench lowest package audit lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

demo: $(STAMP) ## run the whole tour on bundled data, into demo-output/
	$(BIN)/pufferdp demo --out demo-output --overwrite

# A test of the first tier that takes longer than this fails; 0 is no limit.
PUFFERDP_TEST_SECONDS ?= 2

test: $(STAMP) ## run the first tier of tests and the examples in docstrings (four minutes)
	HYPOTHESIS_PROFILE=dev PUFFERDP_TEST_SECONDS=$(PUFFERDP_TEST_SECONDS) $(PYTEST) \
	  -m "not slow and not servers and not races and not docs and not browser"

test-all: $(STAMP) ## run every test, with more examples (twenty minutes)
	HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),ci) PUFFERDP_TEST_SECONDS=0 $(PYTEST)

soak: $(STAMP) ## race fifty processes against one budget and kill half, 200 rounds a store (ROUNDS=N for others)
	$(BIN)/python -m tests.ledger.races $(or $(ROUNDS),200)

fuzz: $(STAMP) ## hand every parser 2,000 broken files and texts (CASES=N for others, SEED=N for others still)
	$(BIN)/python -m tests.fuzz $(or $(CASES),2000) $(or $(SEED),1)

lint: $(STAMP) ## check style, formatting, imports between layers, and that no size in .ci/ratchet.json rises
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config papers/pyproject.toml
	$(BIN)/python .ci/ratchet

types: $(STAMP) ## check types, strictly, in src and papers
	$(BIN)/mypy --strict src papers/src

docs: $(STAMP) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

bench: $(STAMP) ## run the benchmarks
	$(BIN)/python -m benchmarks

lowest: ## install the lowest versions that pyproject.toml allows and run the demo; left out without an index
	$(PYTHON) .ci/lowest

package: $(STAMP) ## build wheel and sdist into dist/, install each in a clean environment and use it
	.ci/package $(BIN)/python

audit: $(STAMP) ## check licences, known holes and vendored scripts; what needs an index is left out without one
	$(BIN)/python .ci/audit

lock: $(STAMP) ## pin every dependency anew in requirements/lock.txt
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --extra report --extra web --extra frames --extra docs --extra dev --allow-unsafe --generate-hashes \
	  --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements/lock.txt pyproject.toml

clean: ## remove the environment, caches and everything the other targets write
	rm -rf .venv build dist papers/dist site demo-output bench-output screenshots .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src papers tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements/lock.txt pyproject.toml papers/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pufferdp needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv || { echo "If ensurepip is missing, on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e papers
	@touch $@

# `make tune` and `make test` are the two commands of the README; they need only python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUDGET ?= 60s

.PHONY: tune test check lint types clean

tune: $(VENV)/.installed
	$(BIN)/tune --space shiftry --budget $(BUDGET)

test: $(VENV)/.test-installed debian
	$(BIN)/python -m pytest

check: lint types

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# mypy follows a regular install only: editable ones map folders in a way that it does not see
types: $(VENV)/.test-installed
	rm -rf build
	$(BIN)/pip install --quiet --no-deps --target build/types .
	MYPYPATH=build/types $(BIN)/mypy -p kilotune

$(VENV)/.installed: pyproject.toml
	./install.sh $(PYTHON) $(VENV) .
	touch $@

$(VENV)/.test-installed: pyproject.toml
	./install.sh $(PYTHON) $(VENV) '.[test]'
	touch $@ $(VENV)/.installed

# what the tests use besides Python: a C compiler; installed where this user may
.PHONY: debian
debian:
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
	  command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq install -y gcc libc6-dev; } || \
	  echo "no C compiler: the tests that compare emitted C are skipped (install gcc to run them)" >&2

clean:
	rm -rf $(VENV) build *.egg-info

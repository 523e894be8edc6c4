# `make tune` and `make test` are the two commands of the README; they need only python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUDGET ?= 60s

.PHONY: tune test check lint types clean

tune: $(VENV)/.installed
	$(BIN)/tune --space shiftry --budget $(BUDGET)

test: $(VENV)/.test-installed debian
	$(BIN)/python -m pytest -n 2 --dist loadgroup

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

# what the tests use besides Python, installed where this user may: a C compiler, compilers and simulators of devices; a
# database server; and npm, which fetches a second AVR simulator and often comes with another node than Debian's
DEVICES := gcc libc6-dev gcc-avr avr-libc simavr libsimavr-dev gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm arduino-core-avr
SERVER := postgresql
BROWSER := chromium fonts-dejavu-core
NODE := nodejs npm

install = { dpkg --status $(1) >/dev/null 2>&1 || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get -qq update && \
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(1) >/dev/null; } || \
  echo "some of these are not installed, and the tests that need them are skipped: $(1)" >&2; }

.PHONY: debian
debian:
	@$(call install,$(DEVICES))
	@$(call install,$(SERVER))
	@$(call install,$(BROWSER))
	@command -v npm >/dev/null || $(call install,$(NODE))

clean:
	rm -rf $(VENV) build *.egg-info

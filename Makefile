# `make tune` and `make test` are the two commands of the README; they need only python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUDGET ?= 30s
DEMO := --space shiftry --input bonsai-digits --drop 0 --budget $(BUDGET)

# every command would compile what it imports, each time, where this is set
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tune test quick check lint types picture clean

tune: $(VENV)/.installed
	$(BIN)/tune $(DEMO)

# the picture in the README: the report of the same search
picture: $(VENV)/.test-installed debian
	mkdir -p build && rm -f build/picture.db
	$(BIN)/tune $(DEMO) --quiet --no-output --storage build/picture.db --study picture
	$(BIN)/tune report picture --storage build/picture.db --output build/picture.html
	$(BIN)/python docs/report_picture.py build/picture.html docs/report.png

test: $(VENV)/.test-installed debian
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# SECONDS of mutated inputs of every kind; the same SEED makes the same cases
SECONDS ?= 60
SEED ?= 1
.PHONY: fuzz
fuzz: $(VENV)/.test-installed
	$(BIN)/python -m kilotune.experiments.fuzz --seconds $(SECONDS) --seed $(SEED)

# generated questions to all compiled searches and simulators, with sanitizers, for so many CPU-seconds; compiling them first takes a minute or two
SANITIZED ?= 15
.PHONY: sanitize
sanitize: $(VENV)/.test-installed
	$(BIN)/python -m tests.sanitized --seconds $(SANITIZED) --seed $(SEED)

# what needs no browser, no cluster, no database server and no simulator, and is done in a moment
quick: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow'

# property tests on examples that no run has seen, and more of those that cost much: `make test` takes the same ones each time
.PHONY: explore
explore: $(VENV)/.test-installed debian
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 --dist loadgroup \
	  $$(grep -rlE "^from (hypothesis|tests.effort) " tests --include="test_*.py")

check: lint types

CODE := search codegen evaluators spaces experiments public docs

# what nothing names: a module is found by lying in one of these folders, a listing is named by the text of its family
FOUND = --ignore-names "$$( (sed -nE 's/^class ([A-Za-z0-9_]+).*/\1/p' codegen/ir/pointwise/*.py search/strategies/*.py; \
	sed -nE 's/.*"kilotune\.[a-z_.]+:([a-z0-9_]+)".*/\1/p' experiments/problems/*/family.py) | paste -sd,),STRATEGY"

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture $(CODE) tests/vulture_whitelist.py $(FOUND)  # what only tests use is not used
	$(BIN)/vulture $(CODE) tests $(FOUND)
	$(MAKE) --no-print-directory contracts

# import-linter takes no root below a regular package, so it is shown a folder with the floors alone
FLOORS := search codegen evaluators spaces experiments
.PHONY: contracts
contracts: $(VENV)/.test-installed
	mkdir -p build/floors/kilotune
	for floor in $(FLOORS); do ln -sfn $(CURDIR)/$$floor build/floors/kilotune/$$floor; done
	PYTHONPATH=build/floors $(BIN)/lint-imports

# mypy follows folders only: an editable install maps them in a way that it does not see, and a regular one lacks what only
# developers run
types: $(VENV)/.test-installed
	rm -rf build/types && mkdir -p build/types/kilotune
	ln -s $(addprefix $(CURDIR)/,search codegen evaluators spaces experiments) $(CURDIR)/public/* build/types/kilotune/
	MYPYPATH=build/types $(BIN)/mypy -p kilotune

# the documentation as a site in build/site; API pages are read from a folder that looks as the package is installed
.PHONY: docs
docs: $(VENV)/.docs-installed
	rm -rf build/whole && mkdir -p build/whole/kilotune
	for part in $(FLOORS) public/__init__.py public/drawing.py public/testing; do ln -s $(CURDIR)/$$part build/whole/kilotune/; done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/.docs-installed: pyproject.toml
	./install.sh $(PYTHON) $(VENV) '.[docs]'
	touch $@

$(VENV)/.installed: pyproject.toml
	./install.sh $(PYTHON) $(VENV) .
	touch $@

$(VENV)/.test-installed: pyproject.toml
	./install.sh $(PYTHON) $(VENV) '.[test]'
	touch $@ $(VENV)/.installed

# what the tests use besides Python, installed where this user may: a C compiler, compilers and simulators of devices and of
# hardware; a database server; and npm, which fetches a second AVR simulator and often comes with another node than Debian's
DEVICES := gcc libc6-dev gcc-avr avr-libc simavr libsimavr-dev gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm arduino-core-avr
ARM := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
HARDWARE := verilator yosys g++
SERVER := postgresql
BROWSER := chromium fonts-dejavu-core
NODE := nodejs npm

install = { dpkg --status $(1) >/dev/null 2>&1 || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get -qq update && \
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(1) >/dev/null; } || \
  echo "some of these are not installed, and the tests that need them are skipped: $(1)" >&2; }

.PHONY: debian
debian:
	@$(call install,$(DEVICES))
	@$(call install,$(ARM))
	@$(call install,$(HARDWARE))
	@$(call install,$(SERVER))
	@$(call install,$(BROWSER))
	@command -v npm >/dev/null || $(call install,$(NODE))

clean:
	rm -rf $(VENV) build *.egg-info

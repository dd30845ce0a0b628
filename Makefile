# make demo     a translator learns before your eyes; what it says, and where it looked (runs/demo)
# make test     lint, types and tests
# make test-all the same with the long experiments
# make check    make test, and the documentation
# make bench    measure, then write the numbers into docs/benchmarks.md and README.md; with KEYS=FILE (queries, keys
#               and values of a model, see regard bench decoding --help) certified decoding too
# make docs     the documentation, in docs/_build/html
# make tables   write the generated tables of README.md and docs/ again
# make images   train what the pictures show (minutes), and draw the pictures of README.md and docs/ again
# make constraints  pin what is installed: change or delete lines of constraints.txt before, to get others
#
# Each makes .venv if it is missing. PIP_ARGS is passed on to pip: PIP_ARGS="--index-url …" chooses an index.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP_ARGS ?=
# More workers than cores: tests of servers, browsers and processes spend much of their time waiting.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 2)

BIN := .venv/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check -q $(PIP_ARGS) -c constraints.txt
export NUMBA_CACHE_DIR := $(CURDIR)/.venv/numba-cache

.PHONY: demo test test-all lint warm check bench docs tables images constraints browser clean

demo: .venv/installed-all
	$(BIN)/regard demo

test: lint warm
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --maxprocesses 6

test-all: lint warm
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --maxprocesses 6 -m ''

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The workers share one cache of compiled kernels and of bytecode: filled here, not by all of them at once.
warm: .venv/installed
	@$(BIN)/python -m compileall -q src
	@for kind in float32 float64; do OMP_NUM_THREADS=1 $(BIN)/python tests/warm.py $$kind & pids="$$pids $$!"; done; \
	for pid in $$pids; do wait $$pid || exit 1; done

check: test docs

bench: .venv/installed
	$(BIN)/regard bench maps --json > .venv/maps.json
	$(BIN)/regard bench attention --json > .venv/attention.json
	OMP_NUM_THREADS=1 $(BIN)/regard bench attention --cpu-time --json > .venv/attention_one_thread.json
	$(BIN)/regard bench structured --json > .venv/structured.json
	$(BIN)/regard bench training --json > .venv/training.json
	$(BIN)/regard bench decoding --json > .venv/decoding.json
	OMP_NUM_THREADS=1 $(BIN)/regard bench language --only writing --cpu-time --json > .venv/writing.json
	OMP_NUM_THREADS=2 $(BIN)/regard bench language --only writing --json > .venv/writing_two_threads.json
	$(BIN)/regard bench language --only training --only map --only memory --json > .venv/language.json
	$(BIN)/regard bench serving --json > .venv/serving.json
	$(BIN)/regard bench drawing --json > .venv/drawing.json
	$(BIN)/regard bench flow --json > .venv/flow.json
	@test -z "$(KEYS)" || { OMP_NUM_THREADS=1 $(BIN)/regard bench decoding --keys "$(KEYS)" --cpu-time --json \
	  > .venv/certified.json && mv .venv/certified.json docs/benchmarks/; }
	mv $(addprefix .venv/,$(addsuffix .json,maps attention attention_one_thread structured training decoding writing writing_two_threads language serving drawing flow)) docs/benchmarks/
	$(BIN)/python docs/generate.py

docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

tables: .venv/installed
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/walk.py

images: .venv/installed
	$(BIN)/python docs/gallery.py

# Everything that is installed, in a fresh environment; a build's name (+cpu) and CUDA's packages depend on the index.
constraints:
	folder=$$(mktemp -d) && $(PYTHON) -m venv $$folder && \
	$$folder/bin/python -m pip install -q $(PIP_ARGS) -c constraints.txt -e '.[dev,docs]' && \
	$$folder/bin/python -m pip freeze --exclude-editable > $$folder/frozen && \
	{ echo "# Written by make constraints: everything that .[dev,docs] installs."; sed 's/+.*//' $$folder/frozen \
	  | grep -E '^[A-Za-z0-9._-]+==[A-Za-z0-9.]+$$' | grep -vE '^(nvidia|cuda|triton)' | LC_ALL=C sort -f; } \
	  > $$folder/constraints && cp $$folder/constraints constraints.txt && rm -rf $$folder

# For tests that look at pages.
browser:
	@if command -v chromium >/dev/null; then echo "browser: $$(command -v chromium)"; \
	elif command -v apt-get >/dev/null; then apt-get install -y --no-install-recommends chromium \
	  || echo "browser: chromium could not be installed; TESTS IN A BROWSER WILL BE SKIPPED"; \
	else echo "browser: no chromium and no apt-get; TESTS IN A BROWSER WILL BE SKIPPED"; fi

clean:
	rm -rf .venv out docs/_build

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; none was found."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: Python 3.11 or newer is needed; $(PYTHON) is older. Use make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv .venv

# What users need; the rest is for changing the project.
.venv/installed-all: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[all]'
	@touch $@

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[dev]'
	@touch $@

.venv/installed-docs: .venv/installed
	$(PIP) -e '.[dev,docs]'
	@touch $@

# Every target sets up what it needs. Python 3.11+ and make are all that must be there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CLASSES := $(VENV)/.classes
LANE   := $(VENV)/.lane

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-plain lint docs dist interop torture bench bench-peers clean

help:
	@echo "make demo | test | test-plain | lint | setup | docs | dist | interop | torture | bench | bench-peers | clean"

setup: $(STAMP) $(LANE)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PyroMQ needs Python 3.11 or later; set PYTHON=..." >&2; exit 1; }
	@echo "setting up $(VENV) (once; PySpark alone is about 450 MB)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[all,dev]'
	@touch $(STAMP)

# The lane in C, built in place; without a compiler the plain one runs (see src/pyromq/lane/__init__.py).
$(LANE): $(STAMP) setup.py $(wildcard src/pyromq/lane/c/*.[ch])
	-$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $(LANE)

demo: $(STAMP) $(LANE)
	$(BIN)/python -m pyromq.pipelines.demo

# `make test SHUFFLE=7` runs the tests in a random order, the same for the same number.
# Tests start some twenty JVMs: the class archive, made once, saves each a third of its CPU time.
$(CLASSES): $(STAMP)
	-$(BIN)/python -m pyromq.spark.class_archive
	@touch $(CLASSES)

PYTEST = $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(if $(SHUFFLE),--shuffle $(SHUFFLE))

test: $(CLASSES) $(LANE)
	$(PYTEST)

# What a lane runs in, once more with the plain one. Where nothing native was built, `make test` has done that.
LANE_TESTS := tests/remoting tests/store tests/broker tests/integration
test-plain: $(LANE)
	@if $(BIN)/python -c 'import sys; from pyromq.lane import lane_text; sys.exit(lane_text() == "plain")'; \
	then echo "the same with the plain lane: $(LANE_TESTS)" && PYROMQ_LANE=plain $(PYTEST) $(LANE_TESTS); \
	else echo "no native lane was built: make test has run the plain one"; fi

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python

bench: $(STAMP) $(LANE)
	$(BIN)/python bench/run.py

# `make bench-peers JSON=FILE` keeps all rounds of the brokers, for `python -m bench.peers page FILE`.
bench-peers: $(STAMP) $(LANE)
	$(BIN)/python -m bench.peers brokers $(if $(JSON),--json $(JSON))
	$(BIN)/python -m bench.peers spark

# `make torture PART=kill_loop` runs one part, `SHORT=1` a short form; the table is tests/faults/__main__.py. All parts
# run with the native lane where it is built, and with the plain one if PYROMQ_LANE=plain says so.
torture: $(STAMP) $(LANE)
	$(BIN)/python -m tests.faults $(PART) $(if $(SHORT),--short)

interop: $(STAMP) $(LANE)
	$(BIN)/python -m pytest --timeout 400 interop

# The site is in build/site. A link that leads nowhere is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean
	@echo "open build/site/index.html, or with search: python3 -m http.server -b 127.0.0.1 -d build/site"

# Source package and wheels, in dist/: one for every machine and, where `cc` is there, one with the lane in C. They are
# built with what the set-up has installed. auditwheel reads which C library the lane needs and names the oldest Linux
# that has it (manylinux); where it cannot run, the wheel says no more than that it is from this Linux.
WHEEL = rm -rf build/lib* build/temp* build/bdist.* && $(BIN)/python -c \
	'from setuptools import build_meta; build_meta.build_wheel("dist")'
dist: $(STAMP)
	rm -f dist/*-linux_*.whl
	$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist")'
	PYROMQ_LANE=plain; export PYROMQ_LANE; $(WHEEL)
	$(WHEEL)
	@for wheel in dist/*-linux_*.whl; do \
		if ! [ -e "$$wheel" ]; then echo "no wheel with the lane in C: no compiler here"; \
		elif PATH="$(BIN):$$PATH" auditwheel repair --wheel-dir dist "$$wheel"; then rm "$$wheel"; \
		else echo "$$wheel: auditwheel did not run, so it is for machines like this one only"; fi; done
	@ls dist

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

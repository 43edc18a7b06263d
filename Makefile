# Every target sets itself up in .venv: all that is needed is Python 3.11 or newer, with pip.
PYTHON ?= python3
PYTEST_ARGS ?= -n auto --maxprocesses 8

VENV := .venv
OLDEST := .venv-oldest
NEWEST := .venv-newest
# The Python of test-newest; give a newer one, because new versions of packages need it.
NEWEST_PYTHON ?= $(PYTHON)
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MET_BY_OTHERS := $(addprefix tests/, io/test_files.py io/test_writing.py io/test_archive.py \
	spectrum/test_solve.py lowrank/test_kernels.py displays/test_displays.py \
	report/test_page.py cli/test_first_contact.py estimators/test_pca.py)

# What is installed elsewhere on the machine must not be seen from .venv.
unexport PYTHONPATH

.PHONY: demo test test-all test-oldest test-newest torch coverage coverage-formulas dist dist-extras check docs bench bench-dask bench-ratings clean
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

# Tests that meet every requirement somewhere, in an environment of its own: with the oldest versions
# that pyproject.toml allows, and with the newest ones. What is deprecated in old versions is no news.
test-oldest:
	$(call met,$(PYTHON),$(OLDEST),oldest,-W ignore::DeprecationWarning)

test-newest:
	$(call met,$(NEWEST_PYTHON),$(NEWEST),newest,)

define met
	$(1) -m venv --clear $(2)
	$(2)/bin/python -m pip install --quiet --disable-pip-version-check $$($(2)/bin/python tests/requirements.py $(3))
	$(2)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg $(2)/bin/python -m pytest $(PYTEST_ARGS) \
		$(4) -m "not slow" $(MET_BY_OTHERS)
endef

# All tests, with the branches that they take; what they leave out is in build/coverage.
coverage: $(VENV)/.installed-coverage
	$(MAKE) test PYTEST_ARGS="$(PYTEST_ARGS) --cov --cov-report=term:skip-covered --cov-report=html"

# The same of the formulas alone, which takes a minute: tests of `spectrum` without those that look for
# a minimum by brute force, because tracing makes them slow.
coverage-formulas: $(VENV)/.installed-coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/spectrum --cov --cov-report= \
		-k "not brute_force and not minimum"
	$(BIN)/coverage report --include='*/bayespca/spectrum/*' --show-missing --skip-covered --fail-under=99

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
	rm -rf $(VENV) $(OLDEST) $(NEWEST) build dist docs/gallery docs/generated bayespca-demo bayespca-reproduction .artefacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("bayespca needs Python 3.11 or newer, but $(PYTHON) is %d.%d: name another one with make PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# .installed-test installs the extra called test, and so on.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	$(INSTALL) -e '.[$*]'
	@touch $@

"""Each option has one name: signatures, tables, docstrings and docs/design.md agree."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import bayespca
from bayespca import BernoulliMixture, GibbsPCA, VariationalPCA
from bayespca.engines.decomposing import ENGINES
from bayespca.estimators._options import quoted
from bayespca.mixtures.bernoulli.start import STARTS
from bayespca.spectrum.methods import METHODS

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
PUBLIC = [getattr(bayespca, name) for name in bayespca.__all__]
ESTIMATORS = [cls for cls in PUBLIC if inspect.isclass(cls) and issubclass(cls, BaseEstimator)]
each_estimator = pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)


def parameters(cls):
    return inspect.signature(cls).parameters


# --- the table in docs/design.md ---------------------------------------------------------------


def section(title):
    return DESIGN.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def told():
    """Defaults by option and estimator. A row: | `option` | meaning | `default`: A, B; … |."""
    found = {}
    for name, places in re.findall(
        r"^\| `(\w+)` \|[^|]*\| (.*) \|$", section("Public options"), re.M
    ):
        groups = re.findall(r"`([^`]*)`: ([\w, ]+)", places)
        assert name not in found
        found[name] = {cls: default for default, names in groups for cls in names.split(", ")}
    return found


def test_signatures_are_those_of_the_table():
    found = {}
    for cls in ESTIMATORS:
        for name, parameter in parameters(cls).items():
            found.setdefault(name, {})[cls.__name__] = quoted(parameter.default)
    assert found == told()


@each_estimator
def test_every_option_is_checked_and_documented(cls):
    assert list(cls.options) == list(parameters(cls))
    for name, option in cls.options.items():
        default = parameters(cls)[name].default
        option.may_be.check(name, default)
        assert option.words
        assert f"\n{name} : {option.may_be.kind}, default={quoted(default)}\n" in cls.__doc__


# --- one word for one thing --------------------------------------------------------------------

ITERATING = {"max_iter", "tol", "checkpoint", "verbose"}
# Chains have a given length instead of a stopping rule.
SAMPLING = {"n_warmup", "n_draws", "n_chains", "thin", "verbose"}


@each_estimator
def test_everything_that_iterates_has_the_same_options(cls):
    assert parameters(cls).keys() >= (SAMPLING if cls is GibbsPCA else ITERATING)
    assert "callback" in inspect.signature(cls.fit).parameters


# Synonyms of names in the table.
FORBIDDEN = {
    *("init_params", "rank", "weight_concentration", "max_rank", "n_iter", "n_sweeps", "max_steps"),
    *("tolerance", "rtol", "seed", "rng", "solver_name", "standardize", "verbosity", "n_starts"),
}


@each_estimator
def test_nothing_has_two_names(cls):
    assert not FORBIDDEN & parameters(cls).keys()
    assert not FORBIDDEN & cls().get_params().keys()


@each_estimator
def test_one_word_for_what_the_program_finds_and_for_maximum_likelihood(cls):
    for option in cls.options.values():
        assert "'em'" not in str(option.may_be.words)
        assert not {"default", "find", "learn"} & set(option.may_be.kinds)


@pytest.mark.parametrize(
    ("cls", "name", "words"),
    [
        (bayespca.BayesianPCA, "method", METHODS),
        (bayespca.BayesianPCA, "engine", ("auto", *ENGINES)),
        (VariationalPCA, "engine", ("auto", *ENGINES)),
        (BernoulliMixture, "init", STARTS),
    ],
)
def test_words_of_annotations_are_those_that_exist(cls, name, words):
    assert get_args(get_type_hints(cls.__init__)[name]) == tuple(words)


# --- messages ----------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0."),
        ({"max_iter": True}, "max_iter must be a whole number of at least 1, got True."),
        ({"tol": "small"}, "tol must be a number of at least 0, got 'small'."),
        (
            {"noise": "loud"},
            "noise must be one of 'auto', 'isotropic', 'per-feature', 'per-sample', 'both', "
            "'student', 'student-cells', 'autoregressive'; got 'loud'.",
        ),
        ({"scale": "yes"}, "scale must be one of True, False; got 'yes'."),
        ({"checkpoint": 3}, "checkpoint must be None or a path, got 3."),
        (
            {"noise_variance": "loud"},
            "noise_variance must be a number, 'auto' or '0db'; got 'loud'.",
        ),
        (
            {"random_state": "seed"},
            "random_state must be None, a whole number of at least 0, a Generator or a "
            "RandomState; got 'seed'.",
        ),
    ],
)
def test_messages(options, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        bayespca.BayesianPCA(**options).fit(X)


@pytest.mark.parametrize(
    "random_state",
    [
        *(None, 3, np.int64(3), [1, 2]),
        *(np.random.default_rng(0), np.random.RandomState(0)),
        *(np.random.SeedSequence(3), np.random.PCG64(3)),
    ],
    ids=lambda seed: type(seed).__name__,
)
def test_seeds(random_state):
    bayespca.BayesianPCA(engine="randomized", random_state=random_state).fit(X)

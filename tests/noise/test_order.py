"""Orders of columns and rows that are declared, and that names show."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from bayespca import BayesianPCA
from bayespca.sources.data import Features

pytestmark = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")


def in_series(rng, n, p, correlation):
    """Standard normal columns, correlated with the column before."""
    E = rng.standard_normal((n, p))
    for j in range(1, p):
        E[:, j] = correlation * E[:, j - 1] + np.sqrt(1 - correlation**2) * E[:, j]
    return E


FOUR = in_series(np.random.default_rng(0), 300, 4, 0.7)
CURVES = in_series(np.random.default_rng(1), 300, 20, 0.7)


def test_four_columns_have_an_order_only_if_it_is_declared():
    assert BayesianPCA().fit(FOUR).noise_ != "autoregressive"
    model = BayesianPCA(feature_order=True).fit(FOUR)
    assert (model.noise_, model.n_components_) == ("autoregressive", 0)


def test_an_order_that_is_declared_still_needs_evidence():
    white = np.random.default_rng(2).standard_normal((300, 4))
    assert BayesianPCA(feature_order=True).fit(white).noise_ == "isotropic"


def test_columns_without_an_order_have_no_neighbours():
    assert BayesianPCA().fit(CURVES).noise_ == "autoregressive"
    model = BayesianPCA(feature_order=False).fit(CURVES)
    assert model.noise_ != "autoregressive"
    assert "autoregressive" not in model.noise_evidence_


def test_names_that_are_numbers_declare_an_order():
    names = ["400.5", "402", "410", "411.25"]
    assert BayesianPCA().fit(pd.DataFrame(FOUR, columns=names)).noise_ == "autoregressive"


@pytest.mark.parametrize(
    ("names", "rise"),
    [
        (["400", "401", "402"], True),
        (["1e3", "2e3", "2.5e3"], True),
        (["0", "1", "2"], False),
        (["1", "2", "3"], False),
        (["3", "2", "1"], False),
        (["1", "b", "7"], False),
        (["5", "5", "6"], False),
        (["7"], False),
        (None, False),
    ],
)
def test_what_counts_as_rising(names, rise):
    given = None if names is None else np.array(names, dtype=object)
    assert Features(3, given).rise is rise


def test_rows_whose_order_means_nothing():
    X = load_wine().data
    assert "sorted-rows" in BayesianPCA().fit(X).status_
    model = BayesianPCA(sample_order=False).fit(X)
    assert "sorted-rows" not in model.status_
    assert model.n_components_ == BayesianPCA().fit(X).n_components_


def test_a_weak_series_is_found_if_it_is_declared():
    X = in_series(np.random.default_rng(3), 25, 400, 0.2).T
    assert "series" not in BayesianPCA().fit(X).status_
    assert "correlation of 0.2" in str(BayesianPCA(sample_order=True).fit(X).status_)


def test_independent_rows_that_are_declared_a_series():
    X = np.random.default_rng(4).standard_normal((300, 10))
    model = BayesianPCA(sample_order=True).fit(X)
    assert model.n_components_ == 0
    assert "series" not in model.status_


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature_order": True, "noise": "both"}, "lets the evidence choose"),
        ({"feature_order": True, "solver": "iterative"}, "lets the evidence choose"),
        ({"sample_order": True, "noise": "both"}, "needs complete data in memory"),
        ({"feature_order": "yes"}, "feature_order must be"),
    ],
)
def test_orders_that_cannot_be_had(options, words):
    with pytest.raises(ValueError, match=words):
        BayesianPCA(**options).fit(CURVES)


@pytest.mark.parametrize("option", ["feature_order", "sample_order"])
def test_orders_and_holes(option):
    X = CURVES.copy()
    X[3, 4] = np.nan
    with pytest.raises(ValueError, match="noise of neighbours is for complete data"):
        BayesianPCA(**{option: True}).fit(X)


def test_orders_and_known_errors():
    with pytest.raises(ValueError, match="leave no choice of the noise"):
        BayesianPCA(feature_order=True).fit(CURVES, error_std=np.ones((1, 20)))


@pytest.mark.parametrize("option", ["feature_order", "sample_order"])
def test_sums_over_blocks_have_no_order(option):
    with pytest.raises(AttributeError, match="partial_fit"):
        BayesianPCA(**{option: True}).partial_fit(CURVES)
    plain, declared = BayesianPCA(), BayesianPCA(**{option: False})
    assert declared.partial_fit(CURVES).n_components_ == plain.partial_fit(CURVES).n_components_

"""`rank_stability`: ranks and directions that come back in half samples."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits

from bayespca import BayesianPCA, rank_report, rank_stability
from bayespca.datasets import noisy
from bayespca.estimators import _input
from bayespca.estimators._halves import is_cheap
from bayespca.estimators.stability import is_halved_unasked, stability_of


def test_strong_components_come_back():
    found = rank_stability(noisy("white", 200, 30, 3, random_state=0).X)
    assert (found.rank, found.ranks[3]) == (3, found.share)
    assert found.share >= 0.95
    assert found.directions == pytest.approx(np.ones(3))
    assert (found.overlaps > 0.95).all()
    assert str(found).startswith("all rows: rank 3, isotropic noise; the most probable number")
    assert found.in_words == "3 of 3 come back in at least 90 % of 100 halves of the rows"


def test_noise_comes_back_as_noise():
    """Never by EVB; a few halves have a component with a probability above 75 % by chance."""
    X = noisy("white", 200, 30, 3, strength=0, random_state=0).X
    found = rank_stability(X)
    assert (found.rank, found.directions.size) == (0, 0)
    assert found.ranks[0] == found.share >= 0.95
    evb = stability_of(BayesianPCA(n_components="evb").fit(X), X)
    assert (evb.rank, evb.ranks, evb.directions.size) == (0, {0: 1.0}, 0)


@pytest.mark.parametrize(
    ("kind", "noise"), [("both", "both"), ("ar", "autoregressive"), ("gross", "per-feature")]
)
def test_noise_is_that_of_all_rows(kind, noise):
    found = rank_stability(noisy(kind, 300, 40, 3, random_state=0).X, n_halves=20)
    assert found.noise == noise
    assert (found.directions[:3] == 1).all()


def test_a_component_near_the_limit_comes_back_in_some():
    """The share of halves must be that of separate fits to halves."""
    X = noisy("white", 120, 20, 1, strength=0.0, random_state=1).X
    X = X + 0.75 * np.outer(np.random.default_rng(0).normal(size=120), np.full(20, 20**-0.5)) * 1.6
    found = rank_stability(X, noise="isotropic", n_halves=400)
    rng = np.random.default_rng(5)
    half = [rng.permutation(120)[:60] for _ in range(400)]
    ranks = [BayesianPCA(noise="isotropic").fit(X[rows]).n_components_ for rows in half]
    share = np.mean(np.array(ranks) == found.rank)
    assert 0.05 < share < 0.95
    assert found.share == pytest.approx(share, abs=0.12)


def test_rounded_numbers_are_as_uncertain_as_in_the_fit():
    """Otherwise halves of counts would keep components that the full fit takes for rounding."""
    found = rank_stability(load_digits().data[:600], n_halves=10)
    assert all(abs(rank - found.rank) <= 4 for rank in found.ranks)


def test_seeds():
    X = noisy("white", 40, 10, 2, strength=0.6, random_state=0).X
    one, same, other = (rank_stability(X, random_state=s, n_halves=30) for s in (0, 0, 1))
    assert one.overlaps == pytest.approx(same.overlaps, abs=0)
    assert one.ranks == same.ranks
    assert (one.overlaps != other.overlaps).any()


def test_units_do_not_matter():
    X = noisy("columns", 100, 15, 2, random_state=0).X
    one, other = rank_stability(X, n_halves=10), rank_stability(X * 1e100, n_halves=10)
    assert (one.rank, one.ranks) == (other.rank, other.ranks)
    assert one.overlaps == pytest.approx(other.overlaps, rel=1e-6)


def test_other_arrays():
    X = noisy("white", 60, 8, 2, random_state=0).X
    found = rank_stability(array_api_strict.asarray(X), n_halves=6)
    assert found.ranks == rank_stability(X, n_halves=6).ranks


def test_what_cannot_be_halved():
    X = noisy("white", 30, 8, 2, random_state=0).X
    with pytest.raises(ValueError, match="contains NaN: half samples need complete data"):
        rank_stability(np.where(X > 1, np.nan, X))
    with pytest.raises(ValueError, match="call toarray"):
        rank_stability(sp.csr_matrix(X))
    with pytest.raises(ValueError, match="3 rows are too few to halve"):
        rank_stability(X[:3])
    with pytest.raises(ValueError, match="n_halves must be at least 1, got 0"):
        rank_stability(X, n_halves=0)


def test_a_fitted_model_is_not_fitted_again():
    X = noisy("both", 100, 12, 2, random_state=0).X
    model = BayesianPCA().fit(X)
    found, same = stability_of(model, X, n_halves=10), rank_stability(X, n_halves=10)
    assert found.as_dict() == same.as_dict()
    assert found.as_dict()["share"] == found.share
    for other in ({"n_components": 2}, {"noise_variance": 1.0}, {"method": "vb"}):
        with pytest.raises(ValueError, match="half samples are fitted by method='evb'"):
            stability_of(BayesianPCA(**other).fit(X), X)


def test_only_small_data_are_halved_unasked():
    small, large = np.zeros((400, 500)), np.zeros((401, 500))
    model = BayesianPCA()
    for X, expected in ((small, True), (large, False), (np.where(small, 0, np.nan), False)):
        assert is_cheap(_input.read(model, X)) == expected
    X = noisy("white", 60, 8, 2, random_state=0).X
    assert is_halved_unasked(BayesianPCA().fit(X))
    assert not is_halved_unasked(BayesianPCA(n_components=2).fit(X))
    assert not is_halved_unasked(BayesianPCA().fit(np.where(X > 2, np.nan, X)))


@pytest.mark.parametrize("rule", ["auto", "evb"])
def test_halves_count_by_the_rule_of_the_fit(rule):
    X = noisy("white", 120, 20, 3, strength=0.4, random_state=1).X
    model = BayesianPCA(noise="isotropic", n_components=rule).fit(X)
    found, rng = stability_of(model, X, n_halves=200), np.random.default_rng(5)
    half = [rng.permutation(120)[:60] for _ in range(100)]
    ranks = [clone(model).fit(X[rows]).n_components_ for rows in half]
    assert found.rule == rule
    assert sum(k * share for k, share in found.ranks.items()) == pytest.approx(
        np.mean(ranks), abs=0.25
    )


def test_halves_of_what_the_data_do_not_determine_count_by_evb():
    found = rank_stability(load_diabetes().data, n_halves=10)
    assert (found.rule, "EVB's own number" in found.numbers_in_words) == ("evb", True)


def test_the_report_of_ranks_has_it():
    X = noisy("columns", 80, 8, 2, random_state=0).X
    found = rank_report(X)
    assert found.stability.noise == found.noise == "per-feature"
    assert found.stability.rank == found.n_components
    assert found.stability.in_words == stability_of(BayesianPCA().fit(X), X).in_words
    assert "of the halves" in str(found)
    assert rank_report(X, n_halves=0).stability is None
    assert rank_report(X, n_halves=6).stability.n_halves == 6
    with pytest.raises(ValueError, match="contains NaN: half samples"):
        rank_report(np.where(X > 2, np.nan, X), n_halves=6)

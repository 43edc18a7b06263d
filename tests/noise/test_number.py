"""The most probable number of components, and data that determine none."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import FactorAnalysis

from bayespca import BayesianPCA
from bayespca.datasets import noisy

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning"),
    # Factors of a table are only something to draw from.
    pytest.mark.filterwarnings("ignore:FactorAnalysis did not converge"),
]


def like_wine(k, seed):
    """Normal rows with the covariance that k maximum-likelihood factors of wine have."""
    rng, table = np.random.default_rng(seed), load_wine().data
    factors = FactorAnalysis(k, tol=1e-6, max_iter=3000, svd_method="lapack")
    model = factors.fit((table - table.mean(0)) / table.std(0))
    noise = np.sqrt(np.maximum(model.noise_variance_, 0.08))
    scores = rng.standard_normal((len(table), k))
    return scores @ model.components_ + noise * rng.standard_normal(table.shape)


# --- the rule ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["white", "columns", "rows", "both", "ar"])
def test_the_most_probable_number_is_kept(kind):
    for seed in range(3):
        model = BayesianPCA().fit(noisy(kind, 100, 15, 3, strength=0.5, random_state=seed).X)
        if model.rank_posterior_ is None:
            continue
        assert model.rank_posterior_.sum() == pytest.approx(1)
        assert model.n_components_ == np.argmax(model.rank_posterior_)


def test_factors_that_evb_takes_for_noise_of_their_columns_are_found():
    right = {"auto": 0, "evb": 0}
    for seed in range(8):
        X = like_wine(5, seed)
        for rule in right:
            right[rule] += BayesianPCA(n_components=rule).fit(X).n_components_ == 5
    assert right["auto"] >= 5
    assert right["evb"] <= 2


def test_a_cap():
    X = like_wine(5, 0)
    free = BayesianPCA().fit(X)
    assert free.n_components_ > 2
    capped = BayesianPCA(n_components=2).fit(X)
    assert capped.n_components_ == 2
    assert capped.noise_ == free.noise_
    # A cap says what is wanted, not what the data contain.
    np.testing.assert_allclose(capped.rank_posterior_, free.rank_posterior_)


def test_other_methods_keep_their_own_number():
    X = like_wine(5, 0)
    with pytest.raises(ValueError, match="n_components='evb' needs method='evb'"):
        BayesianPCA("vb", prior_variance=1.0, n_components="evb").fit(X)
    assert BayesianPCA("laplace").fit(X).n_components_ > 5


def test_blocks_have_the_same_number():
    X = noisy("white", 120, 12, 3, strength=0.35, random_state=2).X
    whole = BayesianPCA(noise="isotropic").fit(X)
    parts = BayesianPCA(noise="isotropic").partial_fit(X[:50]).partial_fit(X[50:])
    assert parts.n_components_ == whole.n_components_
    np.testing.assert_allclose(parts.rank_posterior_, whole.rank_posterior_, atol=1e-6)


# --- without an answer -------------------------------------------------------------------------


def test_four_columns_with_noise_of_their_own_do_not_determine_a_number():
    """Two components and four variances have more parameters than a covariance of four columns."""
    model = BayesianPCA().fit(load_iris().data)
    assert model.rank_posterior_ is None
    assert (
        model.n_components_ == BayesianPCA(n_components="evb").fit(load_iris().data).n_components_
    )


def test_spectra_without_a_gap_have_no_probabilities():
    rng = np.random.default_rng(0)
    decay = 1.0 / np.arange(1, 41)
    X = rng.standard_normal((2000, 40)) * decay @ np.linalg.qr(rng.standard_normal((40, 40)))[0]
    assert BayesianPCA(noise="isotropic").fit(X).rank_posterior_ is None


def test_residuals_that_contradict_the_noise_leave_no_probabilities():
    X = noisy("columns", 200, 15, 2, random_state=1).X
    named, chosen = BayesianPCA(noise="isotropic").fit(X), BayesianPCA().fit(X)
    assert named.rank_posterior_ is None
    assert np.argmax(chosen.rank_posterior_) == 2


# --- holes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_row_of_another_size_leaves_the_probabilities(seed):
    """Its scores are in units of its noise, so components take no more of it than of others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12))
    X += rng.standard_normal(X.shape)
    X[7] *= 40
    model = BayesianPCA().fit(X)
    assert model.noise_ == "per-sample"
    assert model.n_components_ == np.argmax(model.rank_posterior_) == 3


@pytest.mark.parametrize("kind", ["white", "columns", "both"])
def test_a_hole_changes_no_probability(kind):
    X = noisy(kind, 200, 15, 3, strength=1.0, random_state=5).X
    whole = BayesianPCA().fit(X)
    X[7, 3] = np.nan
    holed = BayesianPCA().fit(X)
    np.testing.assert_allclose(holed.rank_posterior_, whole.rank_posterior_, atol=0.05)
    # EVB may have no solution with a component that is hardly above the limit.
    assert 3 <= holed.n_components_ <= whole.n_components_

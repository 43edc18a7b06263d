"""Rows in a series, against the density of all cells at once and simulated truth."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import multivariate_normal

from bayespca import BayesianPCA, load
from bayespca.lowrank.filtering import innovations
from bayespca.noise.series import best_correlation


def along_rows(E, psi):
    """White rows, coloured by an autoregression that starts in its stationary state."""
    X = np.array(E)
    for i in range(1, len(X)):
        X[i] = psi * X[i - 1] + np.sqrt(1 - psi**2) * E[i]
    return X


def simulated(psi, *, n=300, p=12, k=3, seed=0, strength=3.0, sizes=1.0):
    rng = np.random.default_rng(seed)
    factors = strength * rng.normal(size=(n, k)) @ rng.normal(size=(k, p))
    return 2.0 + along_rows(factors + sizes * rng.normal(size=(n, p)), psi)


def fitted(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BayesianPCA(**options).fit(X)


@pytest.mark.parametrize("psi", [-0.5, 0.3, 0.9])
def test_innovations_have_the_density_of_the_rows_given_the_first(psi):
    """log N of all cells minus that of row 1 is the innovations' plus the Jacobian."""
    rng = np.random.default_rng(1)
    n, p = 6, 3
    A = rng.normal(size=(p, p))
    C, X = A @ A.T + np.eye(p), rng.normal(size=(n, p))
    R = psi ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    joint = multivariate_normal(np.zeros(n * p), np.kron(R, C)).logpdf(X.ravel())
    first = multivariate_normal(np.zeros(p), C).logpdf(X[0])
    white = multivariate_normal(np.zeros(p), C).logpdf(innovations(X, psi)).sum()
    jacobian = -0.5 * (n - 1) * p * np.log1p(-(psi**2))
    assert joint - first == pytest.approx(white + jacobian, rel=1e-12)


def test_free_energy_and_mean_are_those_of_all_rows():
    X = simulated(0.8, n=120, p=6, k=2)
    model = fitted(X)
    psi = model.fit_.noise.series
    new = fitted(innovations(X, psi), noise=model.noise_)
    jacobian = 0.5 * (len(X) - 1) * X.shape[1] * np.log1p(-(psi**2))
    assert model.free_energy_ == pytest.approx(new.free_energy_ + jacobian, rel=1e-9)
    R = psi ** np.abs(np.subtract.outer(np.arange(len(X)), np.arange(len(X))))
    weights = np.linalg.solve(R, np.ones(len(X)))
    np.testing.assert_allclose(model.mean_, weights @ X / weights.sum(), rtol=1e-9)


@pytest.mark.parametrize("psi", [-0.4, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("seed", range(3))
def test_number_and_correlation_are_found(psi, seed):
    X = simulated(psi, seed=seed)
    model = fitted(X)
    assert model.fit_.noise.series == pytest.approx(psi, abs=0.05)
    assert model.n_components_ == 3
    assert model.rank_posterior_[3] > 0.5
    assert "Rows form a series" in str(model.status_)


@pytest.mark.parametrize("seed", [5, 6, 10])
def test_a_series_is_seen_although_components_contain_its_noise(seed):
    """Then residuals show nothing, but most scores follow the order of the rows."""
    rng = np.random.default_rng(seed)
    errors = lfilter([1], [1, -0.7], rng.normal(size=(150, 100)), axis=0)[50:]
    factors = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 100))
    X = factors + np.sqrt(3 * (1 - 0.7**2)) * errors
    assert fitted(X, sample_order=False).n_components_ > 20
    assert fitted(X).n_components_ == 3


def test_columns_have_noise_of_their_own():
    sizes = np.geomspace(0.3, 3, 12)
    X = simulated(0.7, n=400, sizes=sizes, strength=2.0)
    model = fitted(X)
    assert (model.noise_, model.n_components_) == ("per-feature", 3)
    ratio = np.sqrt(model.feature_noise_variance_) / sizes
    assert np.abs(np.log(ratio)).max() < 0.25


def test_units_and_shuffles():
    X = simulated(0.8)
    model = fitted(X)
    shifted = fitted(1e3 * X - 50.0)
    assert shifted.fit_.noise.series == pytest.approx(model.fit_.noise.series, abs=1e-6)
    assert shifted.n_components_ == model.n_components_
    mixed = fitted(np.random.default_rng(0).permutation(X))
    assert mixed.fit_.noise.series == 0
    assert "series" not in [one.code for one in mixed.status_.advice]


@pytest.mark.parametrize("seed", range(5))
def test_independent_rows_are_no_series(seed):
    """A chance correlation stays below what a series has to gain."""
    X = simulated(0.0, seed=seed)
    _, gain = best_correlation((X - X.mean(0)) / X.std(0))
    assert gain < 3 + 0.5 * np.log(X.size)


def test_a_series_is_kept_in_model_files(tmp_path):
    X = simulated(0.8)
    model = fitted(X)
    path = tmp_path / "series.bpca"
    model.save(path)
    again = load(path)
    assert again.fit_.noise.series == model.fit_.noise.series
    np.testing.assert_array_equal(again.transform(X), model.transform(X))

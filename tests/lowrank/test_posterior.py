"""New rows under noise of rows and neighbours, against SciPy's distributions and integrals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, multivariate_normal, multivariate_t

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.lowrank import posterior as reading
from bayespca.lowrank.filtering import (
    filtered,
    filtered_gram,
    log_det,
    stationary,
    transposed,
    unfiltered,
)
from bayespca.lowrank.scales import Tails
from oracles import autoregression as oracle

KINDS = {"rows": "per-sample", "both": "both", "ar": "autoregressive", "columns": "per-feature"}


@pytest.fixture(scope="module", params=KINDS)
def fit(request):
    made = noisy(request.param, 120, 7, 2, strength=1.5, random_state=3)
    return BayesianPCA(noise=KINDS[request.param]).fit(made.X + 2)


@pytest.fixture(scope="module")
def fresh():
    rng = np.random.default_rng(5)
    return 2 + 3 * rng.normal(size=(20, 7)) * np.geomspace(0.1, 10, 20)[:, None]


def lower(partials, p):
    """The matrix of the filter, from the covariance that it makes white."""
    return oracle.whitening(oracle.covariance(oracle.coefficients(partials), p))


def written_out(found):
    """The covariance of a row whose variance factor is 1."""
    W, d = found.components, found.latent_variance
    noise = found.noise_variance + float(d @ found.loading_variance)
    inner = W.T @ np.diag(d) @ W + noise * np.eye(W.shape[1])
    back = np.diag(found.scale) @ np.linalg.inv(lower(found.partials, W.shape[1]))
    return back @ inner @ back.T


# --- the filter --------------------------------------------------------------------------------


FILTERS = pytest.mark.parametrize(
    "partials", [(), (-0.6,), (0.3,), (0.99,), (0.5, -0.4), (0.8, -0.5, 0.3, 0.2), (0.0, 0.0, 0.7)]
)


@FILTERS
@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
def test_the_filter_is_its_matrix(partials, p):
    V, L = np.random.default_rng(p).normal(size=(4, p)), lower(partials, p)
    np.testing.assert_allclose(filtered(V, partials), V @ L.T, atol=1e-11)
    np.testing.assert_allclose(transposed(V, partials), V @ L, atol=1e-11)
    np.testing.assert_allclose(unfiltered(V @ L.T, partials), V, atol=1e-11)
    np.testing.assert_allclose(filtered_gram(V.T @ V, partials), L @ V.T @ V @ L.T, atol=1e-10)


@pytest.mark.parametrize("phi", [-0.6, 0.3, 0.99])
def test_a_filter_of_order_one_takes_away_the_feature_before(phi):
    V = np.random.default_rng(0).normal(size=(4, 6))
    first = np.sqrt(1 - phi * phi) * V[:, :1]
    np.testing.assert_array_equal(filtered(V, (phi,)), np.c_[first, V[:, 1:] - phi * V[:, :-1]])


@FILTERS
@pytest.mark.parametrize("p", [2, 9])
def test_the_jacobian_of_the_filter(partials, p):
    assert log_det(partials, p) == pytest.approx(np.linalg.slogdet(lower(partials, p))[1], abs=1e-9)


@FILTERS
def test_the_filter_makes_autoregressive_noise_white(partials):
    C = oracle.covariance(oracle.coefficients(partials), 12)
    np.testing.assert_allclose(filtered_gram(C, partials), np.eye(12), atol=1e-9)
    assert stationary(partials) == pytest.approx(C[0, 0], rel=1e-9)
    assert oracle.partial_autocorrelations(C, len(partials)) == pytest.approx(partials, abs=1e-9)


# --- densities ---------------------------------------------------------------------------------


def test_densities_are_those_of_scipy(fit, fresh):
    found, C = fit.posterior_, written_out(fit.posterior_)
    assert fit.n_components_ > 0
    if found.tails.are_heavy:
        a, b = found.tails.shape, found.tails.rate
        law = multivariate_t(found.mean, b / a * C, df=2 * a)
        assert fit.degrees_of_freedom_ == pytest.approx(2 * a)
    else:
        law = multivariate_normal(found.mean, fit.get_covariance())
    np.testing.assert_allclose(fit.score_samples(fresh), law.logpdf(fresh), rtol=1e-9)


def test_heavy_tails_are_a_mixture_of_normal_rows(fresh):
    """∫ N(x | 0, uC) dp(u) over 1/u ~ Gamma(α, β), for a few rows."""
    made = noisy("rows", 120, 7, 2, strength=1.5, random_state=3)
    fit = BayesianPCA(noise="per-sample").fit(made.X + 2)
    found, C = fit.posterior_, written_out(fit.posterior_)
    law = gamma(found.tails.shape, scale=1 / found.tails.rate)
    for x in fresh[::7]:

        def density(t, x=x, power=0):
            return law.pdf(t) * multivariate_normal(found.mean, C / t).pdf(x) / t**power

        peak = (found.tails.shape + 3.5) / (found.tails.rate + 0.5 * _distance(x, found.mean, C))
        exactly = {"points": [peak], "limit": 200, "epsabs": 0.0, "epsrel": 1e-9}
        total = quad(density, 0, 40 * peak, **exactly)[0]
        assert fit.score_samples(x[None])[0] == pytest.approx(np.log(total), rel=1e-6)
        # The variance of the scores is proportional to ⟨u⟩ of the row.
        u = quad(lambda t, density=density: density(t, power=1), 0, 40 * peak, **exactly)[0] / total
        T, std = reading.scores_and_std(found, x[None])
        d, s2 = found.latent_variance, found.noise_variance
        new = d / (d + s2) * fit.project(x[None])
        np.testing.assert_allclose(std**2, u * s2 * d / (d + s2) + (T - new) ** 2, rtol=1e-6)


def _distance(x, mean, C):
    return float((x - mean) @ np.linalg.solve(C, x - mean))


def test_the_precision_is_the_inverse(fit):
    C = fit.get_covariance()
    np.testing.assert_allclose(fit.get_precision() @ C, np.eye(len(C)), atol=1e-10)
    found = fit.posterior_
    np.testing.assert_allclose(C, written_out(found) * found.tails.spread, rtol=1e-10)


@pytest.mark.parametrize("tails", [Tails(), Tails(8.0, 5.0)], ids=["normal", "heavy"])
def test_draws_have_the_covariance(fit, tails):
    found = replace(fit.posterior_, tails=tails)
    rows = reading.sample(found, 100_000, np.random.default_rng(0))
    root = np.linalg.cholesky(reading.precision(found))
    white = (rows - found.mean) @ root
    np.testing.assert_allclose(white.T @ white / len(rows), np.eye(7), atol=0.04)
    np.testing.assert_allclose(white.mean(axis=0), np.zeros(7), atol=0.02)


def test_tails_without_a_variance_have_a_spread():
    """A single Cauchy column has α ≤ 1; standard deviations must still be finite."""
    X = np.random.default_rng(0).standard_cauchy(size=(80, 1))
    fit = BayesianPCA(noise="per-sample", center=False).fit(X)
    _, std = fit.transform(X, return_std=True)
    assert fit.degrees_of_freedom_ < 2
    assert np.isfinite(std).all()
    assert np.isfinite(fit.get_covariance()).all()
    assert fit.get_precision() @ fit.get_covariance() == pytest.approx(np.eye(1))


# --- scores ------------------------------------------------------------------------------------


def test_there_and_back_is_the_posterior_mean(fit):
    """mean + L⁻¹ times the shrunk part along the components, whatever the noise of the row."""
    found = fit.posterior_
    made = noisy("rows", 30, 7, 2, random_state=8).X
    L = lower(found.partials, 7)
    Z = (made - found.mean) / found.scale @ L.T
    low = Z @ found.components.T @ np.diag(found.shrinkage) @ found.components
    expected = np.linalg.solve(L, low.T).T * found.scale + found.mean
    np.testing.assert_allclose(fit.inverse_transform(fit.transform(made)), expected, rtol=1e-9)


def test_scores_of_noisy_rows_are_less_certain():
    """Standard deviations are proportional to the noise, which 200 cells per row determine."""
    made = noisy("rows", 300, 200, 2, strength=1.0, random_state=0)
    fit = BayesianPCA(noise="per-sample").fit(made.X)
    _, std = fit.transform(made.X, return_std=True)
    sizes = np.sqrt(made.noise_variance[:, 0])
    slope = np.polyfit(np.log(sizes), np.log(std[:, 0]), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)

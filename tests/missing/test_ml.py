"""Probabilistic PCA by maximum likelihood when cells are missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from bayespca import BayesianPCA


def simulated(n=200, p=8, rank=2, share=0.3, noise=0.7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) * 2 + rng.normal(size=p)
    X += noise * rng.normal(size=(n, p))
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


def log_likelihood(Y, W, mean, s2):
    """The sum over rows of the log density of the observed cells."""
    cov = W @ W.T + s2 * np.eye(len(mean))
    total = 0.0
    for row in Y:
        seen = ~np.isnan(row)
        if seen.any():
            marginal = multivariate_normal(mean[seen], cov[np.ix_(seen, seen)])
            total += marginal.logpdf(row[seen])
    return total


def test_it_is_a_maximum_of_the_likelihood():
    """BFGS on the likelihood stays near the fit, which differs by integrating the mean out."""
    _, Y = simulated(60, 5, 1)
    model = BayesianPCA("ml", n_components=1, tol=1e-14, max_iter=20_000).fit(Y)
    W = model.components_.T * np.sqrt(model.explained_variance_ - model.noise_variance_)

    def cost(parameters):
        w, mean, log_s2 = parameters[:5, None], parameters[5:10], parameters[10]
        return -log_likelihood(Y, w, mean, np.exp(log_s2))

    begin = np.r_[W[:, 0], model.mean_, np.log(model.noise_variance_)]
    best = minimize(cost, begin, method="BFGS", options={"gtol": 1e-6})
    # Ours integrates the mean out, which makes variances larger by about n/(n − 1).
    w = best.x[:5] * np.sign(best.x[0] * W[0, 0])
    np.testing.assert_allclose(W[:, 0], w, rtol=0.03)
    np.testing.assert_allclose(model.mean_, best.x[5:10], atol=0.02)
    assert model.noise_variance_ == pytest.approx(np.exp(best.x[10]), rel=0.05)
    assert cost(begin) - best.fun < 0.3


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")  # rows without any cell
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_noise_is_right_whatever_is_missing(share):
    """Tools that share one covariance among all rows find up to 7 times too much noise."""
    found = []
    for seed in range(5):
        _, Y = simulated(400, 10, 2, share, seed=seed)
        found.append(BayesianPCA("ml", n_components=2).fit(Y).noise_variance_)
    assert np.mean(found) == pytest.approx(0.49, rel=0.03)


def test_the_answer_does_not_depend_on_units():
    _, Y = simulated()
    plain, other = (BayesianPCA("ml", n_components=2).fit(Y * c) for c in (1.0, 1e5))
    assert other.noise_variance_ == pytest.approx(plain.noise_variance_ * 1e10, rel=1e-6)
    assert plain.n_components_ == other.n_components_ == 2


def test_filled_cells_have_intervals_that_hold():
    X, Y = simulated(600, 12, 2, 0.3)
    filled, std = BayesianPCA("ml", n_components=2).fit(Y).impute(Y, return_std=True)
    holes = np.isnan(Y)
    assert np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes]) == pytest.approx(0.95, abs=0.015)

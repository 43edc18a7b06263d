"""Leave-one-out predictions of ratings, against fits without those ratings."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import MatrixFactorization
from bayespca.estimators._predictions import judged
from bayespca.missing.ratings.posterior import LARGEST, left_out


def regression(Z, x, noise):
    """Posterior mean and covariance of a regression with a standard normal prior."""
    cov = np.linalg.inv(Z.T @ Z / noise + np.eye(Z.shape[1]))
    return cov @ Z.T @ x / noise, cov


def test_a_linear_model_without_each_row():
    rng, noise = np.random.default_rng(0), 0.7
    Z, x = rng.normal(size=(12, 2)), rng.normal(size=12)
    mean, cov = regression(Z, x, noise)
    variance = np.einsum("ih,hk,ik->i", Z, cov, Z)
    found = left_out(Z @ mean, variance, np.full(12, noise), x)
    usable = np.flatnonzero(variance <= LARGEST * noise)
    assert usable.size > 8
    for i in usable:
        rest = np.arange(12) != i
        mean, cov = regression(Z[rest], x[rest], noise)
        assert found.mean[i] == pytest.approx(Z[i] @ mean, rel=1e-10)
        assert found.variance[i] == pytest.approx(Z[i] @ cov @ Z[i], rel=1e-10)


def test_a_rating_that_is_nearly_all_there_is():
    variances = np.array([LARGEST, 1.01 * LARGEST, 2.0])
    found = left_out(np.full(3, 3.0), variances, np.ones(3), np.full(3, 4.0))
    assert found.mean[0] == pytest.approx(3.0 - LARGEST / (1 - LARGEST))
    assert np.isnan(found.mean[1:]).all()


def simulated(seed):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((60, 40)) < 0.35)
    U, V = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    return users, items, 3 + (U[users] * V[items]).sum(axis=1) + 0.5 * rng.normal(size=users.size)


def test_ratings_are_predicted_as_without_them():
    """Predictions are nearer to thirty refits, each without the rating, than the full fit's."""
    given = simulated(0)
    model = MatrixFactorization().fit_ratings(*given)
    found = judged(model, given)
    there = np.isin(given[2], found.values)
    assert 0.85 < there.mean() < 1
    assert found.n_alone == np.sum(~there)
    known = tuple(column[there] for column in given)
    off, before = [], []
    for i in np.random.default_rng(1).choice(found.values.size, 30, replace=False):
        j = int(np.flatnonzero(given[2] == found.values[i])[0])
        rest = tuple(np.delete(column, j) for column in given)
        truth = MatrixFactorization().fit_ratings(*rest).predict(known[0][i], known[1][i])
        off.append(found.mean[i] - truth)
        before.append(model.predict(known[0][i], known[1][i]) - truth)
    assert np.sqrt(np.mean(np.square(off))) < 0.5 * np.sqrt(np.mean(np.square(before)))


# Averages are accurate with fewer draws than R-hat demands.
@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("method", ["evb", "gibbs"])
def test_intervals_hold_as_on_ratings_that_were_held_out(method):
    shares = []
    for seed in range(3):
        given = simulated(seed)
        is_held = np.random.default_rng(seed).random(given[0].size) < 0.3
        known, held = (tuple(column[which] for column in given) for which in (~is_held, is_held))
        model = MatrixFactorization(method, random_state=0).fit_ratings(*known)
        within = [judged(model, ratings) for ratings in (known, held)]
        shares.append([np.mean(np.abs(w.values - w.mean) < 1.645 * w.std) for w in within])
        assert within[0].n_fitted == within[0].values.size == known[0].size - within[0].n_alone
        assert within[1].n_fitted == 0
    fitted, held = np.mean(shares, axis=0)
    assert fitted == pytest.approx(held, abs=0.03)
    assert fitted == pytest.approx(0.9, abs=0.03)


def test_matrices_and_columns_are_the_same():
    users, items, stars = simulated(0)
    X = np.full((60, 40), np.nan)
    X[users, items] = stars
    model = MatrixFactorization().fit(X)
    a, b = judged(model, X), judged(model, (users, items, stars))
    assert (a.mean == b.mean).all()
    assert a.n_fitted + a.n_alone == users.size


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_fitted_ratings_with_times_are_not_judged():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, 300), rng.integers(0, 15, 300)
    _, first = np.unique(users * 15 + items, return_index=True)
    users, items = users[first], items[first]
    stars, times = rng.integers(1, 6, users.size), rng.integers(0, 9, users.size)
    model = MatrixFactorization("gibbs", n_draws=5, random_state=0)
    model.fit_ratings(users[20:], items[20:], stars[20:], times=times[20:])
    assert judged(model, (users[20:], items[20:], stars[20:])) is None
    found = judged(model, (users, items, stars))
    assert found is not None
    assert (found.n_given, found.n_fitted) == (20, 0)

"""Signs of unequal noise: seldom where it is equal, always where it is not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

from bayespca import BayesianPCA, inference
from bayespca.datasets import noisy
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.noise.asked import Asked
from bayespca.noise.complete import Complete
from bayespca.noise.signs import is_far_from_equal, signs, taken_in_order
from bayespca.spectrum.forms import ClosedForm

SHAPES = [(300, 20), (60, 30), (40, 100)]


def seen_in(X):
    data = Complete(X, ClosedForm(), inference.Looping(max_iter=100, tol=1e-8), Asked())
    return data.look(data.fit(ISOTROPIC)).seen


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 0.6], ids=["noise", "components"])
def test_alarms_are_seldom_false(strength):
    """At most 1 % of the data sets show each sign."""
    alarms = Counter()
    for number in range(201):
        shape = SHAPES[number % 3]
        X = noisy("white", *shape, 3, strength=strength, random_state=number).X
        alarms.update(seen_in(X))
    assert max(alarms.values(), default=0) <= 2


KINDS = {
    "columns": {"columns"},
    "rows": {"rows"},
    "both": {"columns", "rows"},
    "t3": {"cells"},
    "gross": {"cells"},
    "ar": {"neighbours"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_unequal_noise_is_seen(kind, shape):
    for seed in range(3):
        assert KINDS[kind] <= seen_in(noisy(kind, *shape, 3, random_state=seed).X)


@pytest.mark.parametrize(("n", "p"), [(30, 13), (60, 20)])
def test_few_columns_that_are_alike_are_not_taken_for_components(n, p):
    """Smooth components under equal noise explain the correlation away.

    Three of these data sets once had equal noise and 6 to 10 components.
    """
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, p))
        for j in range(1, p):
            X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
        assert BayesianPCA().fit(X).noise_ == "autoregressive"


@pytest.mark.parametrize("p", [6, 12, 40])
def test_components_in_no_order_are_not_taken_for_neighbours(p):
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = 4 * rng.standard_normal((30, 2)) @ rng.standard_normal((2, p))
        X += rng.standard_normal(X.shape)
        alarms += bool(taken_in_order(X - X.mean(axis=0), np.ones(p - 1, bool), p))
    assert alarms <= 6


def test_residuals_of_counts_are_seen():
    assert {"columns", "rows"} <= seen_in(noisy("poisson", 300, 20, 3, random_state=0).X)


def test_gains_are_those_of_the_marginal_likelihood():
    """Pure noise, from which nothing was removed: separate variances against a common one."""
    rng = np.random.default_rng(0)
    E = rng.normal(size=(50, 10)) * np.geomspace(0.5, 2.0, 10)
    R, N = (E**2).sum(axis=0), 50.0

    def own(theta):
        a, b = np.exp(theta)
        logs = gammaln(a + N / 2) - gammaln(a) + a * np.log(b) - (a + N / 2) * np.log(b + R / 2)
        return -float(logs.sum())

    one = 0.5 * R.size * N * (np.log(R.mean() / N) + 1)
    exact = one - minimize(own, [0.0, 0.0], method="Nelder-Mead", options={"fatol": 1e-10}).fun
    found = signs(E, np.ones_like(E))
    assert found.columns == pytest.approx(exact, rel=1e-6)
    assert found.rows == found.neighbours == 0


def test_order_tells_nothing_where_all_columns_are_alike():
    rng = np.random.default_rng(0)
    E = rng.normal(size=(400, 12)) + rng.normal(size=(400, 1))
    assert signs(E, np.ones_like(E)).neighbours == 0


@pytest.mark.parametrize("p", [150, 500, 1000])
@pytest.mark.parametrize("rank", [0, 5, 20])
def test_a_glance_tells_noise_that_is_far_from_equal(p, rank):
    """Components are not noise, whatever their strength."""
    for seed in range(5):
        for kind, far in (("white", False), ("both", True)):
            X = noisy(kind, 64, p, rank, strength=1.0 + seed, random_state=seed).X
            assert is_far_from_equal(X) == far


def test_a_glance_at_nothing():
    assert not is_far_from_equal(np.ones((64, 200)))
    assert not is_far_from_equal(np.ones((2, 200)))
    X = np.random.default_rng(0).standard_normal((64, 200))
    X[:, 3] = 7.0
    assert not is_far_from_equal(X)


def test_what_components_take_from_neighbours_is_no_correlation():
    """White noise without the directions V has the covariance I − VᵀV, also beside the diagonal."""
    rng = np.random.default_rng(0)
    j = np.arange(40)
    V = np.linalg.qr(np.cos(np.outer(j + 0.5, np.arange(1, 13)) * np.pi / 40))[0].T
    E = rng.standard_normal((2000, 40))
    E -= E @ V.T @ V
    freedom = np.broadcast_to(1 - (V**2).sum(axis=0), E.shape)
    blind, seen = signs(E, freedom), signs(E, freedom, taken=V)
    assert blind.correlation < -0.2
    assert abs(seen.correlation) < 0.01
    assert "neighbours" not in seen.seen


def test_items_of_one_scale_are_not_taken_for_neighbours():
    """Groups of columns that stand side by side are alike at any distance within the group."""
    rng = np.random.default_rng(1)
    in_groups = np.repeat(rng.standard_normal((500, 8)), 5, axis=1)
    E = np.sqrt(0.2) * in_groups + np.sqrt(0.8) * rng.standard_normal((500, 40))
    assert signs(E, np.ones(E.shape)).neighbours == 0
    fading = np.array(E)
    for j in range(1, 40):
        fading[:, j] = 0.2 * fading[:, j - 1] + rng.standard_normal(500)
    assert signs(fading, np.ones(E.shape)).neighbours > 100

"""The gain and the probability of a factor in a view."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from bayespca.views.pattern import (
    BEFOREHAND,
    SCALE,
    Estimates,
    cost_of_pattern,
    costs_of_places,
)


def estimates(c=0.5, p=12, seed=0, equal=False):
    rng = np.random.default_rng(seed)
    v = np.full(p, 0.3) if equal else rng.uniform(0.2, 0.4, size=p)
    return Estimates(c * rng.normal(size=p) + np.sqrt(v) * rng.normal(size=p), v)


@pytest.mark.parametrize("equal", [False, True])
def test_the_gain_is_a_ratio_of_evidences(equal):
    found = estimates(equal=equal)
    c2 = np.array([0.0, 0.1, 0.7])
    expected = [
        (
            norm.logpdf(found.y, scale=np.sqrt(found.v + c))
            - norm.logpdf(found.y, scale=found.v**0.5)
        ).sum()
        for c in c2
    ]
    np.testing.assert_allclose(found.gain(c2), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_prior_is_where_the_gain_is_largest(seed, equal):
    found = estimates(seed=seed, equal=equal)
    by_search = minimize_scalar(lambda c2: -found.gain(c2), bounds=(0, 10), method="bounded")
    assert found.best_gain == pytest.approx(-by_search.fun, abs=1e-4)
    assert found.best_gain >= 0


def test_estimates_do_not_depend_on_the_prior_they_were_shrunk_by():
    found = estimates()
    for prior in (0.01, 1.0, 100.0):
        mean, variance = found.y * prior / (prior + found.v), found.v * prior / (prior + found.v)
        again = Estimates.without_prior(mean, variance, prior)
        np.testing.assert_allclose(again.y, found.y, rtol=1e-10)
        np.testing.assert_allclose(again.v, found.v, rtol=1e-10)


def test_the_probability_is_an_integral_over_strengths():
    found, limit = estimates(c=0.25), 0.05

    def integrand(x):
        return np.exp(found.gain(limit * x)) * 2 / (np.pi * SCALE) / (1 + (x / SCALE) ** 2)

    odds = BEFOREHAND / (1 - BEFOREHAND)
    odds *= quad(integrand, 0, 50, limit=200)[0] + quad(integrand, 50, np.inf, limit=200)[0]
    assert found.probability(limit) == pytest.approx(odds / (1 + odds), abs=2e-4)


def test_probabilities_are_right_as_often_as_they_say():
    """Factors and their strengths are drawn from the prior."""
    rng, said, true = np.random.default_rng(0), [], []
    p, limit = 40, 0.1
    v = np.full(p, 0.3)
    for _ in range(2500):
        there = rng.random() < BEFOREHAND
        c2 = limit * abs(SCALE * rng.standard_cauchy()) if there else 0.0
        y = np.sqrt(c2 + v) * rng.normal(size=p)
        said.append(Estimates(y, v).probability(limit))
        true.append(there)
    said, true = np.array(said), np.array(true)
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.95), (0.95, 1.01)):
        some = (said >= low) & (said < high)
        margin = 3 * np.sqrt(0.25 / some.sum())
        assert true[some].mean() == pytest.approx(said[some].mean(), abs=margin)


def test_a_pattern_costs_nothing_where_each_factor_is_in_one_view():
    sizes = np.array([100.0, 30.0])
    assert cost_of_pattern(np.eye(2, dtype=bool), sizes) == 0
    assert cost_of_pattern(np.ones((2, 1), bool), sizes) == pytest.approx(
        0.5 * np.log(30) + np.log(7)
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_place_costs_what_the_pattern_costs_more_with_it(seed):
    """The costliest view is free, and leaving or joining a view changes which one that is."""
    rng = np.random.default_rng(seed)
    sizes = np.array([300.0, 21.0, 120.0, 4.0])
    active = rng.random((4, 6)) < 0.6
    active[rng.integers(4, size=6), np.arange(6)] = True
    found = costs_of_places(active, sizes)
    for v, h in np.ndindex(*active.shape):
        with_it, without = active.copy(), active.copy()
        with_it[v, h], without[v, h] = True, False
        if without[:, h].any():
            expected = cost_of_pattern(with_it, sizes) - cost_of_pattern(without, sizes)
            assert found[v, h] == pytest.approx(expected, abs=1e-12)

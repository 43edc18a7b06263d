"""Variances with a shared prior and a geometric mean of 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from bayespca.lowrank.scales import learned
from bayespca.lowrank.unit_scales import at_unit_scale


def energy(shape, rate, alpha, beta, squares, counts):
    """½Σ(⟨1/u⟩R + N⟨log u⟩) + KL, written out."""
    logs = np.log(rate) - digamma(shape)
    divergence = (
        (shape * np.log(rate) - gammaln(shape) - alpha * np.log(beta) + gammaln(alpha)).sum()
        - ((shape - alpha) * logs).sum()
        - ((rate - beta) * shape / rate).sum()
    )
    return 0.5 * float(shape / rate @ squares + counts @ logs) + float(divergence)


def example(seed, n=6):
    rng = np.random.default_rng(seed)
    counts = rng.integers(5, 40, n).astype(float)
    squares = np.exp(rng.normal(size=n)) * rng.chisquare(counts)
    return squares, counts, np.exp(0.5 * rng.normal(size=n))


@pytest.mark.parametrize("seed", range(4))
def test_the_geometric_mean_is_one(seed):
    squares, counts, units = example(seed)
    found = at_unit_scale(squares, counts, units)
    assert np.log(found.precision * units).mean() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_finds_nothing_lower(seed):
    """All shapes and rates, α and β are free, with the geometric mean held at 1."""
    squares, counts, units = example(seed)
    n = counts.size
    found = at_unit_scale(squares, counts, units)
    shape = found.shape + 0.5 * counts
    known = found.shape, found.rate, squares, counts
    least = energy(shape, shape / found.precision, *known)

    def value(theta):
        s, t = np.exp(theta[:n]), theta[n : 2 * n]
        t = t - t.mean() - np.log(units).mean()
        return energy(s, s / np.exp(t), *np.exp(theta[2 * n :]), squares, counts)

    begin = np.r_[np.log(shape), np.log(found.precision), np.log([found.shape, found.rate])]
    assert value(begin) == pytest.approx(least, rel=1e-12)
    begin = begin + 0.1 * np.random.default_rng(seed).normal(size=begin.size)
    best = minimize(value, begin, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    assert least == pytest.approx(best.fun, abs=1e-7)


def test_where_the_mean_is_right_already_nothing_changes():
    squares, counts, _ = example(0)
    free = learned(squares, counts)
    units = np.full(counts.size, np.exp(-np.log(free.precision).mean()))
    found = at_unit_scale(squares, counts, units)
    np.testing.assert_allclose(found.precision, free.precision, rtol=1e-6)
    assert found.shape == pytest.approx(free.shape, rel=1e-5)


def test_equal_variances_have_a_narrow_prior():
    counts = np.full(8, 20.0)
    found = at_unit_scale(3 * counts, counts, np.ones(8))
    np.testing.assert_allclose(found.precision, 1.0, rtol=1e-12)
    assert found.shape > 1e3

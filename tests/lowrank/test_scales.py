"""Variances with a learned gamma prior: against numerical integration, brute force and truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.special import digamma, gammaln, polygamma
from scipy.stats import gamma

from bayespca.lowrank.scales import (
    LARGEST_SHAPE,
    _marginal,
    _trigamma,
    at_unit_scale,
    given,
    learned,
    nats_per_component,
    probability_of_outlier,
)


def marginal_energy(at, squares, counts):
    """The energy at (log α, log β/α), and its gradient."""
    energy, slope, _ = _marginal(np.array([at[0], at[0] + at[1]]), squares, counts)
    return energy, np.array([slope[0] + slope[1], slope[1]])


def squares(shape: float, n: int, counts: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    variances = 1 / rng.gamma(shape, 1 / shape, n) if np.isfinite(shape) else np.ones(n)
    return variances * rng.chisquare(counts, n)


def test_energy_is_the_integral_over_the_variance() -> None:
    alpha, beta, R, N = 1.3, 0.8, 4.2, 5.0

    def integrand(t: float) -> float:
        return t ** (N / 2) * np.exp(-t * R / 2) * gamma.pdf(t, alpha, scale=1 / beta)

    exact = -np.log(quad(integrand, 0, np.inf)[0])
    at = np.log([alpha, beta / alpha])
    assert marginal_energy(at, np.array([R]), np.array([N]))[0] == pytest.approx(exact, rel=1e-8)


def test_gradient_of_the_energy() -> None:
    R, N = squares(2.0, 40, 6.0), np.full(40, 6.0)
    at = np.array([0.3, -0.2])
    numerical = approx_fprime(at, lambda x: marginal_energy(x, R, N)[0], 1e-7)
    np.testing.assert_allclose(marginal_energy(at, R, N)[1], numerical, atol=1e-5)


@pytest.mark.parametrize(("n", "counts"), [(30, 1.0), (60, 20.0), (20, 300.0)])
def test_no_prior_is_better(n: int, counts: float) -> None:
    R, N = squares(3.0, n, counts), np.full(n, counts)
    found = learned(R, counts)
    mine = marginal_energy(np.log([found.shape, found.rate / found.shape]), R, N)[0]
    for begin in ([-1.0, 0.0], [2.0, 1.0], [8.0, -1.0]):
        other = minimize(
            lambda x: marginal_energy(x, R, N)[0],
            begin,
            method="Nelder-Mead",
            bounds=[(np.log(0.05), np.log(LARGEST_SHAPE)), (-20, 20)],
            options={"xatol": 1e-8, "fatol": 1e-12},
        )
        assert mine <= other.fun + 1e-7


def test_parts_add_up_to_the_energy() -> None:
    """½⟨1/u⟩R + ½N⟨log u⟩ + KL is the energy with r(u) integrated out."""
    R = squares(2.0, 50, 7.0)
    found = learned(R, 7.0)
    parts = 0.5 * found.precision @ R + 3.5 * found.log_variance.sum() + found.divergence
    at = np.log([found.shape, found.rate / found.shape])
    assert parts == pytest.approx(50 * marginal_energy(at, R, np.full(50, 7.0))[0], rel=1e-9)


@pytest.mark.parametrize("shape", [1.0, 5.0, 50.0])
def test_the_prior_is_found(shape: float) -> None:
    found = learned(squares(shape, 4000, 100.0), 100.0)
    assert found.shape == pytest.approx(shape, rel=0.1)
    assert found.rate / found.shape == pytest.approx(1.0, rel=0.1)


def test_equal_variances_have_no_spread() -> None:
    found = learned(squares(np.inf, 2000, 200.0), 200.0)
    assert np.log(found.precision).std() < 0.02
    np.testing.assert_allclose(found.log_variance, -np.log(found.precision), atol=1e-3)


def test_units() -> None:
    R = squares(2.0, 50, 7.0)
    one, other = learned(R, 7.0), learned(1e12 * R, 7.0)
    np.testing.assert_allclose(other.precision * 1e12, one.precision, rtol=1e-6)
    np.testing.assert_allclose(one.times(1e12).log_variance, other.log_variance, rtol=1e-6)
    assert np.log(one.at_unit_scale().precision).mean() == pytest.approx(0.0, abs=1e-12)


def test_given_variances_are_certain() -> None:
    found = given(np.array([1.0, 4.0]))
    np.testing.assert_allclose(found.variance, [1.0, 4.0])
    np.testing.assert_allclose(found.log_variance, np.log([1.0, 4.0]))
    assert found.divergence == 0.0


def test_the_second_derivative_of_the_gamma_function():
    x = np.geomspace(0.05, 1e6, 100)
    np.testing.assert_allclose(_trigamma(x), polygamma(1, x), rtol=1e-9)


def test_what_is_known_of_variances_is_no_part_of_their_prior() -> None:
    found = learned(squares(2.0, 50, 7.0), 7.0)
    factors = np.geomspace(0.1, 10.0, 50)
    same = found.times_each(factors).with_precision(found.precision / factors)
    assert same.divergence == pytest.approx(found.divergence, rel=1e-12)
    np.testing.assert_allclose(same.log_variance, found.log_variance + np.log(factors))
    np.testing.assert_allclose(probability_of_outlier(same), probability_of_outlier(found))


def test_a_component_gains_the_volume_of_the_variances_that_it_makes_uncertain() -> None:
    D, N, of_rows = 2000, 7.0, learned(squares(1.5, 2000, 7.0), 7.0)
    curvature = of_rows.shape + N / 2 * np.array([1.0, (1 - 1 / D) ** 2])
    gain = float(np.diff(-0.5 * D * np.log(curvature))[0])
    assert nats_per_component(of_rows, None) == pytest.approx(gain, rel=2 / D)
    assert nats_per_component(of_rows, of_rows) == pytest.approx(2 * gain, rel=2 / D)


def test_a_component_gains_nothing_where_variances_are_known_or_equal() -> None:
    equal = learned(np.full(20, 9.0), 9.0)
    assert nats_per_component(given(np.ones(4)), None) == 0
    assert nats_per_component(None, None) == 0
    assert nats_per_component(equal, None) < 1e-4


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

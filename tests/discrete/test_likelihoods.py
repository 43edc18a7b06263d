"""Likelihoods against quadrature, finite differences, brute-force maximisers and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from bayespca.discrete.columns import LIKELIHOODS
from bayespca.discrete.likelihoods.bernoulli import Bernoulli
from bayespca.discrete.likelihoods.ordinal import cut_points, rank_probabilities
from oracles import likelihoods as oracle

# Possible values of cells, and parameters of a column.
CASES = {
    "normal": ([-1.3, 0.0, 2.0], [np.log(0.3)]),
    "bernoulli": ([0, 1], []),
    "poisson": ([0, 1, 7, 40], []),
    "negative-binomial": ([0, 1, 7, 40], [np.log(2.5)]),
    "ordinal": ([0, 1, 2, 3, 4], [0.1, -0.7, 0.5]),
}
PLACES = [(-1.5, 0.0), (-1.5, 0.4), (0.3, 1.0), (2.0, 0.1)]
NAMES = list(CASES)


def at(name):
    """Every value at every mean and variance, as one-column arrays, and the parameters."""
    values, parameters = CASES[name]
    cells = np.array([(x, m, v) for x in values for m, v in PLACES], dtype=float)
    return *(column[:, None] for column in cells.T), np.array(parameters)[None]


def simulated(name, n=400, seed=0):
    """A column, the means and variances of its z, and the parameters it was drawn with."""
    rng = np.random.default_rng(seed)
    parameters = np.array(CASES[name][1])[None]
    m = rng.normal(0.5, 0.7, size=(n, 1))
    v = np.full((n, 1), 0.01)
    x = LIKELIHOODS[name].drawn(m + 0.1 * rng.normal(size=m.shape), parameters, rng)
    return x, m, v, parameters


def test_every_likelihood_is_here():
    assert NAMES == list(LIKELIHOODS) == list(oracle.LOG_PROBABILITIES)


@pytest.mark.parametrize("name", NAMES)
def test_averages_are_those_of_quadrature(name):
    x, m, v, parameters = at(name)
    found = LIKELIHOODS[name].expected(x, m, v, parameters).log_likelihood
    kind = float if name == "normal" else int
    wanted = [
        oracle.expected(name, kind(value), mean, variance, parameters[0])
        for value, mean, variance in np.column_stack([x, m, v])
    ]
    # The mixture of normals is the logistic function to 2e-9; counts multiply the error.
    assert found[:, 0] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_belong_to_the_averages(name):
    x, m, v, parameters = at(name)
    v, e = v + 0.05, 1e-5

    def value(m, v):
        return LIKELIHOODS[name].expected(x, m, v, parameters).log_likelihood

    found = LIKELIHOODS[name].expected(x, m, v, parameters)
    by_m = (value(m + e, v) - value(m - e, v)) / (2 * e)
    by_v = (value(m, v + e) - value(m, v - e)) / (2 * e)
    assert found.slope == pytest.approx(by_m, abs=1e-6)
    assert found.omega == pytest.approx(-2 * by_v, abs=1e-6)
    assert (found.omega > 0).all()


@pytest.mark.parametrize("name", [name for name in NAMES if LIKELIHOODS[name].learns])
def test_updates_of_parameters_end_at_the_maximum(name):
    likelihood = LIKELIHOODS[name]
    x, m, v, truth = simulated(name)
    hidden = np.arange(len(x)) % 5 == 0
    seen = (~hidden[:, None]).astype(float)

    def cost(parameters):
        return -float((likelihood.expected(x, m, v, parameters[None]).log_likelihood * seen).sum())

    parameters = likelihood.null(x * seen, seen, np.zeros((1, 1))).parameters
    values = [cost(parameters[0])]
    for _ in range(15):
        parameters = likelihood.updated(x, m, v, seen, parameters)
        values.append(cost(parameters[0]))
    best = optimize.minimize(cost, truth[0], method="Nelder-Mead", options={"fatol": 1e-9})
    assert (np.diff(values) < 1e-9).all()
    assert values[-1] == pytest.approx(best.fun, abs=1e-5)
    assert parameters == pytest.approx(truth, abs=0.4)


@pytest.mark.parametrize("name", NAMES)
def test_means_and_draws_agree(name):
    likelihood = LIKELIHOODS[name]
    rng = np.random.default_rng(1)
    m, v = np.array([[0.4]]), np.array([[0.5]])
    parameters = np.array(CASES[name][1])[None]
    z = m + np.sqrt(v) * rng.normal(size=(200_000, 1))
    drawn = likelihood.drawn(z, parameters, rng)
    error = drawn.std() / np.sqrt(len(drawn))
    assert likelihood.mean(m, v, parameters)[0, 0] == pytest.approx(drawn.mean(), abs=4 * error)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_probabilities(name):
    """Frequencies of drawn values are their probabilities; normal draws pass a KS test."""
    rng = np.random.default_rng(2)
    parameters = np.array(CASES[name][1])[None]
    drawn = LIKELIHOODS[name].drawn(np.full((20_000, 1), 0.3), parameters, rng)
    if name == "normal":
        assert stats.kstest((drawn[:, 0] - 0.3) / np.sqrt(0.3), "norm").pvalue > 1e-3
        return
    values, counts = np.unique(drawn.astype(int), return_counts=True)
    log_p = oracle.LOG_PROBABILITIES[name]
    expected = np.array([np.exp(log_p(value, 0.3, *parameters[0])) for value in values])
    error = np.sqrt(expected * (1 - expected) / 20_000)
    assert (np.abs(counts / 20_000 - expected) < 5 * error + 1e-3).all()


def test_two_ranks_are_zeros_and_ones():
    x, m, v = np.array([[0.0, 1.0]]), np.array([[0.4, -2.0]]), np.array([[0.3, 2.0]])
    none = np.zeros((2, 0))
    for one, other in zip(
        LIKELIHOODS["ordinal"].expected(x, m, v, none),
        LIKELIHOODS["bernoulli"].expected(x, m, v, none),
        strict=True,
    ):
        assert one == pytest.approx(other, abs=1e-7)


def test_columns_with_fewer_ranks():
    """NaN stands for cut points that a column does not have: neither cells nor updates see them."""
    rng = np.random.default_rng(3)
    parameters = np.array([[0.1, -0.7], [0.4, np.nan], [np.nan, np.nan]])
    assert np.isnan(cut_points(parameters)).sum(axis=1).tolist() == [0, 1, 2]
    m, v = rng.normal(size=(60, 3)), np.full((60, 3), 0.2)
    x = LIKELIHOODS["ordinal"].drawn(m, parameters, rng)
    assert x.max(axis=0).tolist() == [3, 2, 1]
    probabilities = rank_probabilities(m, v, parameters)
    assert probabilities.sum(axis=2) == pytest.approx(1, abs=1e-8)
    assert (probabilities[:, 2, 2:] == 0).all()
    updated = LIKELIHOODS["ordinal"].updated(x, m, v, np.ones_like(x), parameters)
    assert (np.isnan(updated) == np.isnan(parameters)).all()
    alone = LIKELIHOODS["ordinal"].updated(
        x[:, 1:2], m[:, 1:2], v[:, 1:2], np.ones((60, 1)), parameters[1:2, :1]
    )
    assert updated[1, 0] == pytest.approx(alone[0, 0], rel=1e-12)


def test_offsets_are_exposures():
    """Rows with twice the exposure have twice the counts: all rows share one rate."""
    rng = np.random.default_rng(4)
    offset = np.log(rng.uniform(0.5, 4.0, size=(4000, 1)))
    for name in ("poisson", "negative-binomial"):
        parameters = np.array(CASES[name][1])[None]
        x = LIKELIHOODS[name].drawn(offset + 1.2, parameters, rng)
        null = LIKELIHOODS[name].null(x, np.ones_like(x), offset)
        assert null.mean[0] == pytest.approx(1.2, abs=0.06)
        if parameters.size:
            assert null.parameters == pytest.approx(parameters, abs=0.3)


def test_quantiles_of_zeros_and_ones_are_those_of_draws():
    rng = np.random.default_rng(0)
    m, v = np.array([-2.0, -0.3, 0.4, 2.5]), np.array([0.1, 1.0, 2.0, 0.5])
    z = m + np.sqrt(v) * rng.normal(size=(200_000, 4))
    share = (1 / (1 + np.exp(-z))).mean(axis=0)
    for level in (0.05, 0.3, 0.5, 0.8, 0.95):
        found = Bernoulli().quantile(level, m, v, np.empty((4, 0)))
        np.testing.assert_array_equal(found, (1 - share < level).astype(float))

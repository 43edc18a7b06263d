"""The sampler leaves the posterior invariant: each block, the sums it draws, and all together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bayespca.arrays.packing import wishart_root
from bayespca.inference.chains import Schedule
from bayespca.linear.gibbs import posterior as reading
from bayespca.linear.gibbs import step as gibbs
from bayespca.linear.gibbs.fit import PrecisionError, fit
from bayespca.linear.gibbs.step import GibbsData, GibbsState, compress, start
from bayespca.lowrank.variational import Hyper
from bayespca.spectrum import closed_form
from oracles import gibbs as oracle

INFORMATIVE = Hyper(a_alpha=3.0, b_alpha=2.0, a_tau=4.0, b_tau=3.0, beta=0.7)
SHAPES = [(12, 3, 2), (3, 5, 2), (6, 4, 3), (4, 3, 2)]
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def problem(n, d, q, seed=0):
    rng = np.random.default_rng(seed)
    state = oracle.draw_prior(d, q, INFORMATIVE, rng)
    return oracle.draw_data(state, n, rng), state


def in_units_of(state: GibbsState, unit: float) -> GibbsState:
    square = unit * unit
    return GibbsState(state.W / unit, state.alpha * square, state.tau * square, state.mu / unit)


def at_unit_one(T) -> GibbsData:
    """The triangle of the data, in the data's own units."""
    data = compress(T)
    return GibbsData(data.ones, data.rows * data.unit, data.n, data.d, 1.0)


def assert_quantiles(draws, expected, spread):
    """Assert quantiles, where draws are worth about a third as many independent ones."""
    error = np.quantile(draws, LEVELS) - expected
    assert np.abs(error).max() < 8 * spread / np.sqrt(len(draws))


# --- the data ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(50, 4), (5, 4), (4, 4), (3, 7), (1, 3), (20, 1)])
def test_the_triangle_holds_all_products(n, d):
    T = 5 + 3 * np.random.default_rng(0).normal(size=(n, d))
    data = compress(T)
    assert data.rows.shape == (min(n, d + 1), d)
    both = np.column_stack([data.ones, data.rows * data.unit])
    full = np.column_stack([np.ones(n), T])
    assert both.T @ both == pytest.approx(full.T @ full, rel=1e-12)
    assert data.mean * data.unit == pytest.approx(T.mean(axis=0), rel=1e-12)
    scatter = data.centred.T @ data.centred * data.unit**2
    assert scatter == pytest.approx((T - T.mean(0)).T @ (T - T.mean(0)), abs=1e-11)
    if n > 1:
        assert data.unit == pytest.approx(np.sqrt(np.mean((T - T.mean(0)) ** 2)), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 7.5])
def test_data_that_do_not_vary_have_a_unit(value):
    assert compress(np.full((20, 3), value)).unit == (value or 1.0)


# --- densities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (5, 3, 0)])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e4])
def test_log_joint_is_that_of_the_model(shape, factor):
    T, state = problem(*shape)
    T, state = factor * T, in_units_of(state, 1 / factor)
    prior = INFORMATIVE.in_units(1 / factor)
    data = compress(T)
    found = gibbs.log_joint(in_units_of(state, data.unit), data, prior.in_units(data.unit))
    assert found == pytest.approx(oracle.log_joint(T, state, prior), rel=1e-10)


def test_log_joint_keeps_its_digits_when_there_is_hardly_noise():
    """Rotations of the loadings do not change it, though its terms are 10¹² times larger."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(6, 2))
    T = rng.normal(size=(50, 2)) @ W.T + 1e-6 * rng.normal(size=(50, 6))
    data, turn = compress(T), np.linalg.qr(rng.normal(size=(2, 2)))[0]
    states = [GibbsState(V / data.unit, np.ones(2), 1e12, np.zeros(6)) for V in (W, W @ turn)]
    values = [gibbs.log_likelihood(state, data) for state in states]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


# --- sums of latent variables ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(30, 3, 2), (7, 4, 3), (5, 4, 2), (3, 6, 2)])
def test_drawn_sums_have_the_moments_of_sums_over_all_rows(shape):
    """Means and covariances of Σx, Σtxᵀ, Σxxᵀ; with n > d + 1 + q they come from a Wishart."""
    T, state = problem(*shape)
    data, m = at_unit_one(T), min(shape[0], shape[1] + 1)
    rng, size = np.random.default_rng(1), 4000

    def sums(ones, rows, X):
        k = len(ones)
        parts = ones @ X[:k], rows.T @ X[:k], (X.T @ X)[np.triu_indices(shape[2])]
        return np.concatenate([np.ravel(part) for part in parts])

    ours = [sums(data.ones, data.rows, gibbs.latent(state, data, rng)) for _ in range(size)]
    ones = np.ones(len(T))
    theirs = [sums(ones, T, oracle.draw_latent(T, state, rng)) for _ in range(size)]
    assert gibbs.latent(state, data, rng).shape[0] <= m + shape[2]
    ours, theirs = np.array(ours), np.array(theirs)
    z = (ours.mean(0) - theirs.mean(0)) / np.sqrt((ours.var(0) + theirs.var(0)) / size)
    assert np.abs(z).max() < 4
    scale = theirs.std(axis=0)
    off = (np.cov(ours.T) - np.cov(theirs.T)) / np.outer(scale, scale)
    assert np.abs(off).max() < 8 / np.sqrt(size)


@pytest.mark.parametrize(("dof", "q"), [(0, 2), (2, 3), (3, 3), (9, 3), (4, 0)])
def test_wishart_root(dof, q):
    rng = np.random.default_rng(0)
    roots = [wishart_root(dof, q, rng) for _ in range(4000)]
    assert roots[0].shape == (min(dof, q), q)
    products = np.array([Z.T @ Z for Z in roots])
    assert products.mean(axis=0) == pytest.approx(dof * np.eye(q), abs=0.05 * (dof + 1))
    for i in range(q if dof >= q else 0):
        assert stats.kstest(products[:, i, i], stats.chi2(dof).cdf).pvalue > 1e-3


# --- one block at a time, against its density on a grid ----------------------------------------


@pytest.mark.parametrize("shape", [(12, 3, 2), (3, 5, 2)])
def test_noise_precision_given_loadings(shape):
    T, state = problem(*shape)
    data, rng = at_unit_one(T), np.random.default_rng(1)

    def density(y):  # of log τ
        return oracle.log_joint(T, replace(state, tau=float(np.exp(y))), INFORMATIVE) + y

    expected = oracle.quantiles(density, np.linspace(-4, 5, 1500), LEVELS)
    found, now = [], state
    for _ in range(3000):
        now = replace(now, tau=gibbs.noise_precision(now, data, INFORMATIVE, rng))
        found.append(np.log(now.tau))
    assert_quantiles(found, expected, expected[-1] - expected[0])


@pytest.mark.parametrize("shape", [(12, 3, 1), (3, 5, 1)])
def test_scale_of_a_column(shape):
    """Along w√v, α/v the density of log v has the factor v^(d/2 − 1) of the volume."""
    T, state = problem(*shape, seed=2)
    data, rng, d = at_unit_one(T), np.random.default_rng(1), shape[1]

    def density(y):
        v = np.exp(y)
        there = replace(state, W=state.W * np.sqrt(v), alpha=state.alpha / v)
        return oracle.log_joint(T, there, INFORMATIVE) + (d / 2 - 1) * y

    expected = oracle.quantiles(density, np.linspace(-8, 8, 2000), LEVELS)
    found, now = [], state
    for _ in range(3000):
        now = gibbs.rescaled(now, data, INFORMATIVE, rng)
        assert now.alpha * (now.W**2).sum(0) == pytest.approx(state.alpha * (state.W**2).sum(0))
        found.append(np.log(state.alpha[0] / now.alpha[0]))
    assert_quantiles(found, expected, expected[-1] - expected[0])


def test_scales_of_further_columns():
    """The rank-one updates of H and F after each column equal their direct computation."""
    rng = np.random.default_rng(0)
    A, B = (np.cov(rng.normal(size=(4, 9))) for _ in range(2))
    v, H = np.ones(4), np.linalg.inv(np.eye(4) + A)
    F = H @ B @ H
    for i in (2, 0, 3):
        v[i] = np.exp(rng.normal())
        H, F = gibbs.after_rescaling(H, F, i, v[i])
        expected = np.linalg.inv(np.diag(1 / v) + A)
        assert pytest.approx(expected, rel=1e-12) == H
        assert pytest.approx(expected @ B @ expected, rel=1e-11) == F


def test_angle_of_a_rotation():
    _, state = problem(12, 3, 2, seed=5)
    rng = np.random.default_rng(1)

    def turned(angle):
        c, s = np.cos(angle), np.sin(angle)
        return state.W @ np.array([[c, s], [-s, c]])

    def density(angle):
        return oracle.log_prior(replace(state, W=turned(angle)), INFORMATIVE)

    def angle(W):
        R = np.linalg.lstsq(state.W, W)[0]
        assert R @ R.T == pytest.approx(np.eye(2), abs=1e-10)
        assert np.linalg.det(R) == pytest.approx(1.0)
        return np.arctan2(R[0, 1], R[0, 0]) % np.pi

    expected = oracle.quantiles(density, np.linspace(0, np.pi, 2000), LEVELS)
    # Each rotation swaps the columns at random, which keeps the plane but not the angle.
    found = []
    while len(found) < 3000:
        W = gibbs.rotated(state.W, state.alpha, rng)
        found.append(angle(W))
    assert_quantiles(found, expected, expected[-1] - expected[0])


def test_origin_of_the_latent_variables():
    T, state = problem(3, 4, 1)
    rng = np.random.default_rng(0)
    X = oracle.draw_latent(T, state, rng)
    # With as many rows as data, the triangle is a rotation of the data: use the data themselves.
    data = GibbsData(np.ones(3), T, 3, T.shape[1], 1.0)

    def density(s):
        there = replace(state, mu=state.mu - state.W[:, 0] * s)
        return oracle.log_complete(T, X + s, there, INFORMATIVE)

    expected = oracle.quantiles(density, np.linspace(-6, 6, 2000), LEVELS)
    found = []
    for _ in range(3000):
        mu = gibbs.moved_origin(X, state.W, state.mu, data, INFORMATIVE, rng)
        found.append((state.mu - mu)[0] / state.W[0, 0])
    assert_quantiles(found, expected, expected[-1] - expected[0])


def test_loadings_and_mean_given_latent_variables():
    """A Gaussian whose precision and mean are read off the density by differences."""
    T, state = problem(3, 2, 2)
    rng = np.random.default_rng(0)
    X = oracle.draw_latent(T, state, rng)
    data, d = GibbsData(np.ones(3), T, 3, T.shape[1], 1.0), 2

    def density(flat):
        both = flat.reshape(d, 3)
        there = replace(state, W=both[:, :2], mu=both[:, 2])
        return oracle.log_complete(T, X, there, INFORMATIVE)

    size, unit = 3 * d, np.eye(3 * d)
    at_zero = density(np.zeros(size))
    slope = np.array([(density(e) - density(-e)) / 2 for e in unit])
    precision = -np.array(
        [[density(e + f) - density(e) - density(f) + at_zero for f in unit] for e in unit]
    )
    found = []
    for _ in range(6000):
        W, mu = gibbs.loadings(X, state, data, INFORMATIVE, rng)
        found.append(np.column_stack([W, mu]).ravel())
    root = np.linalg.cholesky(precision)
    white = (np.array(found) - np.linalg.solve(precision, slope)) @ root
    assert np.abs(white.mean(axis=0)).max() < 4 / np.sqrt(6000)
    assert np.cov(white.T) == pytest.approx(np.eye(size), abs=6 / np.sqrt(6000))


def test_precisions_of_columns():
    _, state = problem(12, 3, 2)
    rng = np.random.default_rng(0)
    draws = np.array([gibbs.column_precisions(state.W, INFORMATIVE, rng) for _ in range(3000)])
    for i in range(2):

        def density(y, i=i):
            alpha = state.alpha.copy()
            alpha[i] = np.exp(y)
            return oracle.log_prior(replace(state, alpha=alpha), INFORMATIVE) + y

        expected = oracle.quantiles(density, np.linspace(-6, 5, 1500), LEVELS)
        assert_quantiles(np.log(draws[:, i]), expected, expected[-1] - expected[0])


# --- all together ------------------------------------------------------------------------------


def functions(state: GibbsState, T: np.ndarray) -> np.ndarray:
    signal = np.sum(state.W**2)
    return np.array(
        [
            *(np.log(state.tau), np.log(state.tau) ** 2, 1 / state.tau),
            *(np.log(signal), np.log(signal) ** 2, state.W[0, 0], state.W[0, 0] * state.W[1, 0]),
            *(np.log(state.alpha).sum(), np.prod(np.log(state.alpha)), np.log(state.alpha).max()),
            *(state.mu[0], state.mu @ state.mu, np.log(signal) * np.log(state.tau)),
            *(np.log(np.sum(state.W[:, 0] ** 2)) * np.log(state.alpha[0]), np.log(np.sum(T * T))),
            state.mu[0] * T[0, 0],
        ]
    )


@pytest.mark.parametrize("shape", [(7, 2, 2), (3, 4, 2), (4, 3, 3)])
def test_joint_distribution(shape):
    """Geweke's test: drawing data and parameters in turn reproduces their joint distribution.

    Each sweep is in the unit of its own data, so that the change of units is under test, too.
    """
    n, d, q = shape
    rng, size = np.random.default_rng(7), 4000
    independent = []
    for _ in range(4 * size):
        state = oracle.draw_prior(d, q, INFORMATIVE, rng)
        independent.append(functions(state, oracle.draw_data(state, n, rng)))
    chain = []
    for _ in range(size):
        T = oracle.draw_data(state, n, rng)
        data = compress(T)
        prior = INFORMATIVE.in_units(data.unit)
        state = gibbs.sweep(in_units_of(state, data.unit), data, prior, rng)
        state = in_units_of(state, 1 / data.unit)
        chain.append(functions(state, T))
    independent, chain = np.array(independent), np.array(chain)
    batches = chain.reshape(50, -1, chain.shape[1]).mean(axis=1)
    error = np.sqrt(independent.var(0) / len(independent) + batches.var(0, ddof=1) / len(batches))
    z = (chain.mean(axis=0) - independent.mean(axis=0)) / error
    assert np.abs(z).max() < 4


def test_intervals_cover_the_truth():
    """Parameters from the prior, data from the parameters: 95 % of the intervals are right."""
    rng, hits = np.random.default_rng(11), []
    for _ in range(40):
        T, truth = problem(20, 3, 2, seed=rng)
        data = compress(T)
        schedule = Schedule(n_chains=1, n_warmup=30, n_draws=170)
        found = fit(data, 2, prior=INFORMATIVE, schedule=schedule, rngs=rng.spawn(1))
        C = found.W[0] @ np.swapaxes(found.W[0], 1, 2) + np.eye(3) / found.tau[0][:, None, None]
        quantities = np.column_stack([C[:, *np.triu_indices(3)], 1 / found.tau[0], found.mu[0]])
        true_C = truth.W @ truth.W.T + np.eye(3) / truth.tau
        true = np.concatenate([true_C[np.triu_indices(3)], [1 / truth.tau], truth.mu])
        low, high = np.quantile(quantities, [0.025, 0.975], axis=0)
        hits.append((low < true) & (true < high))
    assert 0.90 < np.mean(hits) < 0.99
    assert np.mean(hits, axis=0).min() > 0.8


def test_a_sweep_does_not_grow_with_the_number_of_samples():
    rng = np.random.default_rng(0)
    T = rng.normal(size=(20_000, 4))
    data = compress(T)
    assert data.rows.shape == (5, 4)
    state = start(data, 3, Hyper(), rng)
    assert gibbs.latent(state, data, rng).shape == (5 + 3, 3)


@pytest.mark.parametrize("q", [0, 1, 5])
@pytest.mark.parametrize("n", [1, 2, 6, 40])
def test_any_shape_runs(n, q):
    T = 3 + np.random.default_rng(0).normal(size=(n, 5))
    data, schedule = compress(T), Schedule(n_warmup=5, n_draws=5)
    rngs = np.random.default_rng(0).spawn(2)
    found = fit(data, q, prior=Hyper(), schedule=schedule, rngs=rngs)
    assert found.W.shape == (2, 5, 5, q)
    for array in vars(found).values():
        assert np.isfinite(array).all()
    assert np.isfinite(reading.report(found, data)[0].noise_variance)


def test_what_double_precision_cannot_hold_is_told():
    rng = np.random.default_rng(0)
    data = compress(1e6 * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6)))
    with pytest.raises(PrecisionError, match="below rounding errors"):
        fit(data, 5, prior=Hyper(), schedule=Schedule(), rngs=rng.spawn(1))


# --- alignment ---------------------------------------------------------------------------------


def test_matching_undoes_order_and_signs():
    rng = np.random.default_rng(0)
    reference = np.linalg.qr(rng.normal(size=(6, 3)))[0].T
    mixed = np.array([[reference[[2, 0, 1]] * [[1], [-1], [-1]], -reference]])
    assert reading.matched(mixed, reference) == pytest.approx(
        np.broadcast_to(reference, (1, 2, 3, 6))
    )


def test_turning_undoes_rotations():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(6, 3))
    turns = np.linalg.qr(rng.normal(size=(2, 4, 3, 3)))[0]
    assert reading.turned(W @ turns, W) == pytest.approx(np.broadcast_to(W, (2, 4, 6, 3)))


def test_principal_axes_are_those_of_the_product():
    W = np.random.default_rng(0).normal(size=(2, 6, 3))
    values, axes = reading.principal_axes(W)
    again = np.swapaxes(axes, 1, 2) @ (values[..., None] * axes)
    assert again == pytest.approx(W @ np.swapaxes(W, 1, 2))
    assert (np.diff(values) < 0).all()
    # A column that is exactly 0 has no direction, and breaks nothing.
    W[:, :, 1] = 0
    assert np.isfinite(reading.principal_axes(W)[1]).all()


@pytest.mark.parametrize(("n", "d"), [(101, 10), (1001, 50), (21, 60)])
def test_a_component_counts_from_the_threshold_of_evb_on(n, d):
    snr, M = reading.detectable(n, d), n - 1
    observed = (1 + snr) * (M + d / snr)
    assert observed == pytest.approx(closed_form.evb_threshold(d, M), rel=1e-9)
    assert snr > np.sqrt(d / M)

"""Noise that depends on several neighbours: updates against dense covariances, and its order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from bayespca import BayesianPCA, load
from bayespca.linear.scaled.order import gains_of_partials, highest_order
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.squares import Products, best_partials, diagonal_of_inverse
from bayespca.linear.scaled.start import from_all_noise, from_the_filter
from bayespca.linear.scaled.step import Rounds
from bayespca.lowrank.filtering import filtered, prediction_errors
from bayespca.lowrank.noise_models import AUTOREGRESSIVE, ISOTROPIC
from bayespca.noise.choosing import learned_by
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES
from oracles import autoregression as oracle

from .test_scaled import fitted
from .uneven import settled

# Features and order, with enough features for all predictions to be whole, or not.
SIZES = pytest.mark.parametrize(("p", "order"), [(9, 1), (9, 3), (9, 4), (9, 7), (5, 4), (3, 2)])
RESONANCE = (1.2, -0.8)


def partials(order):
    return tuple(np.random.default_rng(order).uniform(-0.8, 0.8, order).tolist())


def products(p, order, n=20):
    """Products of pairs of features, dense and as the rounds have them."""
    E = np.random.default_rng(p).normal(size=(n, p + 1))
    E = E[:, 1:] + 0.6 * E[:, :-1]
    S = E.T @ E
    beside = np.zeros((order, p))
    for d in range(1, order + 1):
        beside[d - 1, : p - d] = np.diag(S, d)
    return S, Products(np.diag(S).copy(), beside, float(n))


def drawn(seed, coefficients, n=300, p=60, k=0, weights=(1.0,)):
    """Noise from shocks with these weights and what went before, plus k components."""
    rng = np.random.default_rng(seed)
    shocks = rng.standard_normal((n, p + 300))
    noise = lfilter(weights, np.r_[1.0, -np.array(coefficients)], shocks, axis=1)[:, 300:]
    return noise / noise.std() + 0.7 * rng.standard_normal((n, k)) @ rng.standard_normal((k, p))


# --- updates -----------------------------------------------------------------------------------


@SIZES
def test_diagonals_of_the_inverse_covariance(p, order):
    inverse = np.linalg.inv(oracle.covariance(oracle.coefficients(partials(order)), p))
    for d in range(order + 1):
        found = diagonal_of_inverse(partials(order), p, d)
        assert found == pytest.approx(np.diag(inverse, d), abs=1e-10)


@SIZES
def test_sums_of_products_with_the_inverse_covariance(p, order):
    S, left = products(p, order)
    inverse = np.linalg.inv(oracle.covariance(oracle.coefficients(partials(order)), p))
    errors = prediction_errors(partials(order))[-1]
    total = np.trace(inverse @ S)
    assert errors @ left.of_predictions() @ errors == pytest.approx(total, rel=1e-9)
    expected = np.maximum(np.diag(inverse @ S), LEAST_NOISE_OF_FEATURES * left.own)
    assert left.pull(partials(order)) == pytest.approx(expected, abs=1e-9 * total)


@pytest.mark.parametrize(("p", "order"), [(9, 1), (9, 3), (5, 4), (3, 2)])
def test_brute_force_finds_no_better_filter(p, order):
    S, left = products(p, order)
    found = (0.0,) * order
    energies = [oracle.energy(found, S, left.number)]
    for _ in range(20):
        found = best_partials(left, found)
        energies.append(oracle.energy(found, S, left.number))
    assert np.diff(energies).max() <= 1e-10 * abs(energies[0])
    assert energies[-1] == pytest.approx(oracle.best(S, left.number, order)[0], rel=1e-7)


def test_each_order_gains_what_a_longer_filter_gains():
    """With the variance that is best for each order, found on a grid."""
    S, left = products(30, 3)
    energies = [_least_energy(S, left, order) for order in range(4)]
    # One after the other, the filters of higher orders are not quite the best.
    assert gains_of_partials(left) == pytest.approx(-np.diff(energies), rel=0.02, abs=0.1)


def _least_energy(S, left, order):
    least, best = np.inf, (0.1,) * order
    for size in np.trace(S) / S.shape[0] / left.number * np.geomspace(0.3, 1.2, 100):
        scaled = Products(left.own / size, left.beside[:order] / size, left.number)
        best = best_partials(scaled, best) if order else ()
        errors = prediction_errors(best)[-1]
        logs = sum(i * np.log1p(-kappa * kappa) for i, kappa in enumerate(best, 1))
        square = errors @ scaled.of_predictions() @ errors
        energy = square + left.number * (S.shape[0] * np.log(size) - logs)
        least = min(least, 0.5 * energy)
    return least


@pytest.mark.parametrize("center", [True, False])
def test_a_change_of_variables_gives_the_free_energy(center):
    X = drawn(0, RESONANCE, 40, 8, 1)
    n, p = X.shape
    noise = replace(AUTOREGRESSIVE, order=3)
    state, _ = settled(X, noise, center=center)
    columns, found = state.whitening.columns, state.whitening.partials
    L = oracle.whitening(oracle.covariance(oracle.coefficients(found), p))
    assert filtered(np.eye(p), found).T == pytest.approx(L, abs=1e-9)
    Z = (X - X.mean(axis=0) * center) * np.sqrt(columns.precision) @ L.T
    white = fitted(Z, ISOTROPIC, center=center)
    jacobian = np.linalg.slogdet(L * np.sqrt(columns.precision))[1]
    loose, M = columns.log_variance + np.log(columns.precision), n - center
    expected = white.free_energy - M * jacobian + columns.divergence + 0.5 * M * loose.sum()
    assert state.energy == pytest.approx(expected, rel=1e-9)
    assert state.found.solution.rank == white.n_components


@pytest.mark.parametrize("shape", [(60, 12), (12, 40)])
def test_the_free_energy_never_rises(shape):
    X = drawn(1, (0.5, 0.0, -0.4), *shape, 2)
    table, noise = noisy_table(X, center=True, rows=False), replace(AUTOREGRESSIVE, order=4)
    rounds = Rounds(table, noise, ClosedForm())
    for start in (from_all_noise, from_the_filter):
        state, energies = start(rounds), []
        for _ in range(25):
            state, _ = rounds.step(state)
            energies.append(state.energy)
        assert np.diff(energies).max() <= 0
        assert energies[0] - energies[-1] >= 0


# --- the order ---------------------------------------------------------------------------------


def test_orders_that_are_tried():
    assert [highest_order(p) for p in (2, 3, 5, 60, 100, 2000, 20_000)] == [1, 2, 4, 32, 64, 64, 16]


def test_each_coefficient_has_its_price():
    one, four = (learned_by(replace(AUTOREGRESSIVE, order=q), (30, 20)) for q in (1, 4))
    assert four - one == pytest.approx(3 * 0.5 * np.log(600))
    assert learned_by(AUTOREGRESSIVE, (30, 20)) == one


@pytest.mark.parametrize(
    ("coefficients", "orders"), [((0.7,), {1}), (RESONANCE, {2}), ((0.4, -0.3, 0.2, 0.1, 0.2), {8})]
)
@pytest.mark.parametrize("k", [0, 3])
def test_the_evidence_finds_the_order_and_no_components_too_many(coefficients, orders, k):
    model = BayesianPCA().fit(drawn(2, coefficients, k=k))
    assert (model.noise_, model.n_components_) == ("autoregressive", k)
    assert len(model.fit_.noise.partials) in orders
    assert ("of order" in model.fit_.noise.in_words) == (orders != {1})


@pytest.mark.parametrize("seed", range(2))
def test_moving_averages_are_no_components(seed):
    model = BayesianPCA().fit(drawn(seed, (), 200, 60, 3, np.ones(6)))
    assert model.n_components_ == 3
    assert len(model.fit_.noise.partials) >= 8


@pytest.mark.parametrize("seed", range(2))
def test_noise_that_is_far_smoother_than_any_autoregression_of_order_one(seed):
    """Components of smooth noise, which the first order keeps, are let go of again."""
    rng, x = np.random.default_rng(seed), np.arange(80)
    smooth = np.exp(-0.5 * ((x[:, None] - x) / 2) ** 2) + 1e-6 * np.eye(80)
    peaks = np.exp(-0.5 * ((x - np.array([[20], [38], [60]])) / 6) ** 2)
    noise = 0.15 * rng.standard_normal((150, 80)) @ np.linalg.cholesky(smooth).T
    model = BayesianPCA().fit(rng.gamma(2, 1, (150, 3)) @ peaks + noise)
    assert model.n_components_ == 3


@pytest.mark.parametrize("lag", [2, 5])
def test_columns_of_different_sizes(lag):
    sizes = np.exp(0.5 * np.random.default_rng(7).normal(size=60))
    coefficients = (*np.zeros(lag - 1), 0.6)
    model = BayesianPCA(feature_order=True).fit(drawn(7, coefficients, k=3) * sizes)
    assert model.n_components_ == 3
    # The power of two that reaches as far.
    assert len(model.fit_.noise.partials) == {2: 2, 5: 8}[lag]


def test_smooth_noise_in_columns_of_different_sizes():
    """The filter is found for variances that no other column predicts; equal ones keep 20."""
    rng, x = np.random.default_rng(0), np.arange(60)
    smooth = np.exp(-0.5 * ((x[:, None] - x) / 2) ** 2) + 0.01 * np.eye(60)
    noise = rng.standard_normal((300, 60)) @ np.linalg.cholesky(smooth).T
    X = noise + 0.7 * rng.standard_normal((300, 3)) @ rng.standard_normal((3, 60))
    model = BayesianPCA().fit(X * np.exp(0.3 * rng.standard_normal(60)))
    assert 3 <= model.n_components_ <= 4


def test_columns_without_an_order_have_none():
    model = BayesianPCA(feature_order=False).fit(drawn(3, RESONANCE))
    assert model.fit_.noise.partials == ()


def test_neighbours_as_alike_at_a_distance_of_two_need_a_declared_order():
    """They might be items of one scale."""
    X = drawn(4, (), 100, 60, 2, np.ones(12))
    model = BayesianPCA(feature_order=True).fit(X)
    assert (model.noise_, model.n_components_) == ("autoregressive", 2)


def test_a_given_number_of_components_keeps_the_order():
    X = drawn(5, RESONANCE, k=3)
    model = BayesianPCA(n_components=2).fit(X)
    assert model.n_components_ == 2
    assert len(model.fit_.noise.partials) == 2


def test_a_saved_model_has_the_same_filter(tmp_path):
    X = drawn(6, RESONANCE, k=3)
    model = BayesianPCA().fit(X)
    model.save(tmp_path / "model.bpca")
    same = load(tmp_path / "model.bpca")
    assert same.fit_.noise.partials == model.fit_.noise.partials
    assert same.posterior_.partials == model.posterior_.partials
    np.testing.assert_array_equal(same.transform(X), model.transform(X))
    np.testing.assert_array_equal(same.score_samples(X), model.score_samples(X))

"""Noise of rows, columns and neighbours in complete data, against written-out sums, brute force,
the evidence and grids.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bayespca import inference
from bayespca.datasets import noisy
from bayespca.linear.scaled.data import Whitening
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.start import equal_noise
from bayespca.linear.scaled.step import Rounds, state_of
from bayespca.lowrank.filtering import filtered
from bayespca.lowrank.noise_models import (
    AUTOREGRESSIVE,
    BOTH,
    ISOTROPIC,
    PER_FEATURE,
    PER_SAMPLE,
)
from bayespca.noise.asked import Asked
from bayespca.noise.complete import Complete
from bayespca.spectrum.forms import ClosedForm
from oracles import uneven_noise as oracle

from .uneven import settled, uneven, written_out

OWN = pytest.mark.parametrize("noise", [PER_FEATURE, PER_SAMPLE, BOTH], ids=lambda one: one.name)
CENTER = pytest.mark.parametrize("center", [True, False])
# n, p, rank and seed of small data whose rows or columns differ clearly.
CASES = {"per-feature": (12, 5, 1, 2), "per-sample": (7, 5, 1, 4), "both": (9, 7, 1, 3)}


def small(noise):
    n, p, rank, seed = CASES[noise.name]
    return uneven(n, p, rank, rows=noise.rows, columns=noise.columns, seed=seed)


def fitted(X, noise=ISOTROPIC, *, center=True):
    """A fit with this noise model, without comparing others."""
    looping = inference.Looping(max_iter=5000, tol=1e-12)
    return Complete(X, ClosedForm(), looping, Asked(center=center)).fit(noise)


# --- the free energy ---------------------------------------------------------------------------


@CENTER
@pytest.mark.parametrize("shape", [(7, 4, 1), (6, 5, 1), (9, 6, 2), (5, 9, 1)])
def test_equal_noise_has_the_free_energy_that_is_written_out(shape, center):
    X = uneven(*shape, strength=10.0, seed=1)
    table = noisy_table(X, center=center, rows=False)
    whitening = equal_noise(Rounds(table, ISOTROPIC, ClosedForm()))
    problem, theta = written_out(state_of(whitening, table, ClosedForm()), X, center=center)
    found = fitted(X, center=center)
    assert found.n_components == problem.k > 0
    assert found.free_energy == pytest.approx(oracle.free_energy(problem, theta), rel=1e-10)


@OWN
@CENTER
@pytest.mark.parametrize("shape", [(7, 4, 1), (9, 6, 2), (5, 9, 1)])
def test_the_free_energy_is_the_one_that_is_written_out(noise, center, shape):
    X = uneven(*shape, rows=0.7 * noise.rows, columns=0.7 * noise.columns, seed=3)
    state, _ = settled(X, noise, center=center)
    problem, theta = written_out(state, X, center=center)
    found = fitted(X, noise, center=center)
    assert found.n_components == problem.k
    assert state.energy == pytest.approx(oracle.free_energy(problem, theta), rel=1e-9)
    assert found.free_energy == pytest.approx(oracle.free_energy(problem, theta), rel=1e-8)


@OWN
@CENTER
def test_the_slope_of_all_parameters_vanishes(noise, center):
    X = small(noise)
    state, _ = settled(X, noise, center=center)
    problem, theta = written_out(state, X, center=center)
    assert problem.k > 0
    assert oracle.slope(problem, theta) == pytest.approx(np.zeros(theta.size), abs=1e-5)


@OWN
@CENTER
def test_brute_force_finds_nothing_lower(noise, center):
    X = small(noise)
    state, _ = settled(X, noise, center=center)
    problem, theta = written_out(state, X, center=center)
    rng = np.random.default_rng(0)
    for distance in (0.0, 0.1, 1.0):
        start = theta + distance * rng.normal(size=theta.size)
        assert oracle.least(problem, start)[0] > state.energy - 1e-6


@OWN
@CENTER
@pytest.mark.parametrize("shape", [(5, 3), (4, 4)])
def test_it_bounds_the_evidence(noise, center, shape, monkeypatch):
    """The minimum for unequal variances, against an average over draws from the priors."""
    monkeypatch.setattr(oracle, "BOUNDS", np.log([2.0, 2.0]))
    X = uneven(*shape, 1, rows=noise.rows, columns=noise.columns, strength=3.0, seed=0)
    problem = oracle.Problem(X, 1, center, noise.rows, noise.columns)
    rng = np.random.default_rng(0)
    starts = 0.5 * rng.normal(size=(2, len(problem.bounds)))
    F, theta = min((oracle.least(problem, start) for start in starts), key=lambda end: end[0])
    log_evidence, error = oracle.log_evidence(problem, theta, rng)
    assert error < 0.2
    assert -log_evidence - 3 * error < F < -log_evidence + 3.0
    # The bound is tight if only one side has unequal noise and no mean links the rows.
    if noise != BOTH and not center:
        assert pytest.approx(-log_evidence, abs=3 * error) == F


@pytest.mark.parametrize("seed", range(12))
def test_equal_noise_is_never_better(seed):
    """All models contain equal noise, but few cells may mislead them a little."""
    X = uneven(*[(7, 4, 1), (10, 6, 1), (20, 8, 2)][seed % 3], strength=1.5, seed=seed)
    plain = fitted(X).free_energy
    for noise in (PER_FEATURE, PER_SAMPLE, BOTH):
        assert fitted(X, noise).free_energy < plain + 0.02


# --- neighbours --------------------------------------------------------------------------------


def along(seed, n=200, p=30):
    """Data with noise correlated between neighbours, in columns of different size."""
    sizes = np.exp(0.3 * np.random.default_rng(seed).normal(size=p))
    return noisy("ar", n, p, 3, random_state=seed).X * sizes


@CENTER
def test_a_change_of_variables_gives_the_free_energy_of_neighbours(center):
    """F of the filtered data, whose noise is equal, minus the logarithm of the Jacobian."""
    X = along(0, 40, 6)
    n, p = X.shape
    state, _ = settled(X, AUTOREGRESSIVE, center=center)
    columns, partials = state.whitening.columns, state.whitening.partials
    L = filtered(np.eye(p), partials).T
    Z = (X - X.mean(axis=0) * center) * np.sqrt(columns.precision) @ L.T
    white = fitted(Z, center=center)
    jacobian = np.linalg.slogdet(L * np.sqrt(columns.precision))[1]
    # ⟨log v⟩ is not log 1/⟨1/v⟩.
    loose = columns.log_variance + np.log(columns.precision)
    M = n - center
    expected = white.free_energy - M * jacobian + columns.divergence + 0.5 * M * loose.sum()
    assert state.energy == pytest.approx(expected, rel=1e-9)
    assert state.found.solution.rank == white.n_components


def test_no_other_correlation_is_better():
    X = along(1)
    state, table = settled(X, AUTOREGRESSIVE)
    energies = [
        _least_at(state, table, state.whitening.partials[0] + d) for d in np.linspace(-0.1, 0.1, 11)
    ]
    assert np.argmin(energies) == 5
    assert energies[5] == pytest.approx(state.energy, abs=1e-6)
    assert state.whitening.partials == pytest.approx((0.7,), abs=0.03)


def _least_at(state, table, phi):
    """Lowest free energy for another φ, with the best columns for it."""
    form, noise = ClosedForm(), AUTOREGRESSIVE
    now = state_of(replace(state.whitening, partials=(phi,)), table, form)
    for _ in range(50):
        columns = Rounds(table, noise, form).updated(now).columns
        new = state_of(Whitening(columns, None, (phi,)), table, form)
        if new.energy > now.energy - 1e-8:
            break
        now = new
    return now.energy


def test_brute_force_finds_no_better_columns_beside_neighbours():
    X = along(2, 80, 8)
    state, table = settled(X, AUTOREGRESSIVE)
    columns, p, k = state.whitening.columns, table.p, state.found.solution.rank

    def energy(theta):
        prior = replace(columns, shape=np.exp(theta[p]), rate=np.exp(theta[p + 1]), counts=79.0)
        there = Whitening(prior.with_precision(np.exp(theta[:p])), None, (np.tanh(theta[p + 2]),))
        return state_of(there, table, ClosedForm()).energy

    logs = np.log(np.r_[columns.precision, columns.shape, columns.rate])
    theta = np.r_[logs, np.arctanh(state.whitening.partials)]
    assert k > 0
    assert energy(theta) == pytest.approx(state.energy, rel=1e-12)
    rng = np.random.default_rng(0)
    for distance in (0.0, 0.1):
        start = theta + distance * rng.normal(size=theta.size)
        assert minimize(energy, start, method="L-BFGS-B").fun > state.energy - 1e-6

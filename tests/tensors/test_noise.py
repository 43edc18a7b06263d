"""Noise of slices: the free energy written out, and fits of simulated tensors."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from bayespca import inference
from bayespca.lowrank.scales import Scales
from bayespca.tensors import noise as noise_of_slices
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from bayespca.tensors.noise import divided, step, updated
from oracles import tucker as oracle
from tensors.simulated import artificial, moments_of, unequal, with_holes

LOG_2PI = np.log(2 * np.pi)


def started(T, *, center=False, ranks=None):
    """Data, model, and a state after the first step."""
    data = tucker_cells(T, center=center)
    model, data = tucker_model(data, ranks=ranks, has_slices=True).suited(data)
    state, _ = step(model.start(data, np.random.default_rng(0)), data, model)
    return data, model, state


def written_out(T, state):
    """The free energy in units of the data: cell by cell, row by row, with u of each slice.

    A row a has the prior N(0, u·C) and the posterior r(a|u)·r(u), whose covariance is in units of
    u. The data T are not divided by the scales.
    """
    scales, moments = state.scales, moments_of(state)
    g, total = moments.core.ravel(), 0.0
    for cell in itertools.product(*map(range, T.shape)):
        if np.isnan(T[cell]):
            continue
        x = oracle.regressors(moments, cell)
        second = np.outer(g, g) + moments.core_cov
        low2 = np.sum(second * oracle.second_of_regressors(moments, cell))
        precision = np.prod([one.precision[i] for one, i in zip(scales, cell, strict=True)])
        y = T[cell] * np.sqrt(precision)
        left = y**2 - 2 * y * (g @ x) + low2
        logs = sum(one.log_variance[i] for one, i in zip(scales, cell, strict=True))
        s2 = moments.noise_variance
        total += 0.5 * (LOG_2PI + np.log(s2) + logs + left / s2)
    prior = np.ones(1)
    for c in moments.priors:
        prior = np.kron(prior, c)
    total += _kl(g, moments.core_cov, prior)
    for n, one in enumerate(scales):
        # Means are scaled by √⟨1/u⟩; log u cancels in ratios of covariances.
        for a, S in zip(moments.means[n], moments.covs[n], strict=True):
            total += _kl(a, S, moments.priors[n])
        total += _of_gammas(one)
    return float(total)


def _kl(mean, cov, prior):
    quadratic = np.sum((mean**2 + np.diag(cov)) / prior)
    return 0.5 * (quadratic + np.log(prior).sum() - mean.size - np.linalg.slogdet(cov)[1])


def _of_gammas(one: Scales) -> float:
    """Sum of KL(Gamma(a, b) ‖ Gamma(α, β)) over all 1/u."""
    a = one.shape + 0.5 * np.asarray(one.counts)
    b = a / one.precision
    expected_log = digamma(a) - np.log(b)
    mine = a * np.log(b) - gammaln(a) + (a - 1) * expected_log - a
    prior = one.shape * np.log(one.rate) - gammaln(one.shape) + (one.shape - 1) * expected_log
    return float(np.sum(mine - prior + one.rate * one.precision))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_free_energy_is_that_of_the_model_written_out(share):
    T = with_holes(unequal(0, (4, 5, 4), (2, 2, 2), snr=100.0)[0], share)
    data, model, state = started(T, ranks=(2, 2, 2))
    for _ in range(3):
        state, info = step(state, data, model)
        assert info.free_energy == pytest.approx(written_out(T / data.unit, state), rel=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_new_scales_lead_lower_and_no_others_lead_lower_still(share):
    """After an update of all modes, the variances of the last mode are the best."""
    T = with_holes(unequal(1, (3, 3, 3), (1, 1, 1), snr=30.0)[0], share)
    data, _, state = started(T, ranks=(1, 1, 1))
    before = written_out(T / data.unit, state)
    state = updated(state, divided(data, state.scales))
    after = written_out(T / data.unit, state)
    assert after < before
    last = state.scales[-1]
    for change in np.vstack([np.eye(3), -np.eye(3)]) * 0.02:
        other = last.with_precision(last.precision * np.exp(change))
        rows = replace(state.rows[-1], mean=np.exp(0.5 * change)[:, None] * state.rows[-1].mean)
        moved = replace(state.with_rows(2, rows), scales=(*state.scales[:-1], other))
        assert written_out(T / data.unit, moved) > after


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_free_energy_never_rises(share, center):
    """The loop would warn, and warnings are errors."""
    T = with_holes(unequal(2, (8, 9, 10), (2, 2, 2))[0], share)
    data = tucker_cells(T, center=center)
    fit = inference.fit(tucker_model(data, has_slices=True), data, inference.Looping())
    assert fit.converged
    falls = -np.diff(fit.trace.free_energy)
    assert (falls > -1e-9 * abs(fit.free_energy)).all()


def test_holes_that_are_filled_are_latent_variables():
    """With a large core and few holes, scales stay near those of the complete tensor."""
    T = unequal(3, (14, 15, 16), (9, 9, 9), snr=20.0)[0]
    data = tucker_cells(with_holes(T, 0.05), center=False)
    model, suited = tucker_model(data, has_slices=True).suited(data)
    assert suited.fills
    filled = inference.fit(model, data, inference.Looping(max_iter=100))
    data = tucker_cells(T, center=False)
    whole = inference.fit(
        tucker_model(data, has_slices=True), data, inference.Looping(max_iter=100)
    )
    for mine, theirs in zip(filled.noise.slices, whole.noise.slices, strict=True):
        np.testing.assert_allclose(np.log(mine), np.log(theirs), atol=0.5)


def test_equal_slices_stay_equal():
    T, _ = artificial(0, (15, 16, 17), (2, 3, 2), snr=5.0)
    data = tucker_cells(T, center=False)
    fit = inference.fit(tucker_model(data, has_slices=True), data, inference.Looping())
    equal = inference.fit(tucker_model(data), data, inference.Looping())
    assert fit.ranks == equal.ranks == (2, 3, 2)
    assert fit.free_energy == pytest.approx(equal.free_energy, abs=1.0)
    for one in fit.noise.slices:
        np.testing.assert_allclose(one, fit.noise_variance, rtol=0.02)


def test_a_slice_without_cells_has_the_usual_noise():
    counts = np.array([50.0, 50.0, 0.0, 50.0])
    found = noise_of_slices._learned(np.array([45.0, 50.0, 0.0, 55.0]), counts)
    assert np.isfinite(found.precision).all()
    assert 1 / found.precision[2] == pytest.approx(1.0, rel=0.1)

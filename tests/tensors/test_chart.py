"""Accelerated sweeps over tensors end where plain ones do, or lower, and sooner."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.inference import Looping
from bayespca.inference.fitting import settle
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import TuckerModel, tucker_model

TOL = 1e-8


def tensor(shape, ranks, *, noise, holes=0.0, decay=0.6, seed=0):
    """A low-rank tensor whose components become weaker, so that the last hardly stand out."""
    rng = np.random.default_rng(seed)
    T = rng.normal(size=ranks)
    for n, (size, rank) in enumerate(zip(shape, ranks, strict=True)):
        weights = np.exp(-decay * np.arange(rank))
        factor = rng.normal(size=(size, rank)) * weights
        T = np.moveaxis(np.tensordot(factor, T, axes=(1, n)), 0, n)
    T = T / T.std() + noise * rng.normal(size=shape)
    return np.where(rng.random(shape) < holes, np.nan, T)


def begun(T, **options):
    cells = tucker_cells(T, center=False)
    model, cells = tucker_model(cells, **options).suited(cells)
    return model, cells, model.start(cells, np.random.default_rng(0))


CASES = {
    "complete": {"noise": 0.3},
    "filled": {"noise": 0.3, "holes": 0.05},
    "with holes": {"noise": 0.3, "holes": 0.4},
    "hardly any noise": {"noise": 0.01},
}


@pytest.mark.parametrize("case", CASES)
def test_random_problems_end_as_low(case, monkeypatch):
    """Includes the search over ranks."""
    cells = tucker_cells(tensor((9, 8, 7), (5, 4, 4), **CASES[case]), center=False)
    quick = settle(tucker_model(cells), cells, Looping(tol=TOL)).run
    monkeypatch.setattr(TuckerModel, "chart", lambda model, data: None)
    plain = settle(tucker_model(cells), cells, Looping(max_iter=2000, tol=1e-11)).run
    assert quick.converged
    assert (np.diff(quick.trace.free_energy) <= 0).all()
    assert quick.free_energy <= plain.free_energy + 2 * TOL * (abs(plain.free_energy) + 1)
    assert quick.n_iter < plain.n_iter


@pytest.mark.parametrize("holes", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("has_slices", [False, True])
def test_a_state_is_where_its_vector_is(holes, has_slices):
    """Everything is restored except the core, which is solved for again."""
    T = tensor((9, 8, 7), (3, 3, 3), noise=0.3, holes=holes)
    model, cells, state = begun(T, has_slices=has_slices)
    for _ in range(4):
        state, _ = model.step(state, cells)
    chart = model.chart(cells)
    again = chart.at(state, chart.point(state, None).vector)
    for old, new in zip(state.rows, again.rows, strict=True):
        np.testing.assert_allclose(new.mean, old.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(new.cov, old.cov, rtol=1e-7, atol=1e-12)
    for old, new in zip(state.scales, again.scales, strict=True):
        np.testing.assert_allclose(new.log_variance, old.log_variance, atol=1e-9)
        assert new.divergence == pytest.approx(old.divergence, abs=1e-8)
    np.testing.assert_allclose(again.core.mean, state.core.mean, atol=0.02)
    assert again.noise_variance == pytest.approx(state.noise_variance)

"""Filled holes and the core, solved for together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca.tensors import complete
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from bayespca.tensors.holes import low_rank
from bayespca.tensors.state import energy_of, with_core
from bayespca.tensors.step import filled, step
from tensors.simulated import artificial, with_holes
from tensors.test_chart import tensor

# A core with nearly as many entries as there are cells, and a small one.
RANKS = [(6, 5, 5), (2, 2, 2)]


def begun(ranks):
    """Data, problem, a state after a few sweeps, its filled tensor and equations of its core."""
    T = with_holes(artificial(3, (7, 6, 5), (3, 3, 3), snr=20.0)[0], 0.15)
    data = replace(tucker_cells(T, center=False), fills=True)
    model, data = tucker_model(data, ranks=ranks).suited(data)
    data = replace(data, fills=True)
    state = model.start(data, np.random.default_rng(0))
    for _ in range(3):
        state, _ = step(state, data, model)
    here = filled(data, state)
    return data, model, state, here, complete.projected(state, here)


def slowly(state, here, data, problem, rounds=20_000):
    """The tensor filled from the core, which is solved for again, until nothing moves."""
    for _ in range(rounds):
        state = with_core(state, complete.projected(state, here), problem)
        new = data.filled(low_rank(state, data))
        if np.abs(new.values - here.values).max() < 1e-13:
            break
        here = new
    return here


@pytest.mark.parametrize("ranks", RANKS)
def test_holes_are_where_filling_them_again_and_again_leads(ranks, monkeypatch):
    monkeypatch.setattr(complete, "WORTHWHILE", 0.0)
    data, problem, state, here, equations = begun(ranks)
    found, after = complete.refilled(state, equations, here, problem)
    expected = slowly(state, here, data, problem)
    np.testing.assert_allclose(after.values, expected.values, atol=1e-8)
    assert after.squares == pytest.approx(float(np.sum(after.values**2)))
    np.testing.assert_allclose(found.cross, complete.projected(state, after).cross, atol=1e-9)
    seen = np.asarray(data.seen, dtype=bool)
    assert (after.values[seen] == data.values[seen]).all()


@pytest.mark.parametrize("ranks", RANKS)
def test_the_free_energy_is_lower_for_it(ranks):
    data, problem, state, here, equations = begun(ranks)
    before = energy_of(with_core(state, equations, problem), equations, here, problem)
    found, after = complete.refilled(state, equations, here, problem)
    now = energy_of(with_core(state, found, problem), found, after, problem)
    best = slowly(state, here, data, problem)
    least = energy_of(
        with_core(state, complete.projected(state, best), problem),
        complete.projected(state, best),
        best,
        problem,
    )
    assert least - 1e-9 <= now < before
    assert now - least < 0.1 * (before - least)


def test_nothing_to_fill_stays_as_it_is():
    """Refilling holes that are already solved for hardly moves them."""
    _, problem, state, here, equations = begun((2, 2, 2))
    once = complete.refilled(state, equations, here, problem)
    again = complete.refilled(state, *once, problem)
    np.testing.assert_allclose(again[1].values, once[1].values, rtol=1e-2, atol=1e-6)


def test_sweeps_lead_lower_for_it(monkeypatch):
    """The core has nearly as many entries as there are cells."""
    ranks, noise = (9, 5, 8, 5), 0.03
    data = tucker_cells(
        tensor((10, 5, 9, 6), ranks, noise=noise, holes=0.05, decay=0.2), center=False
    )
    model, data = tucker_model(data, ranks=ranks).suited(data)
    first = replace(model.start(data, np.random.default_rng(0)), noise_variance=noise**2)
    assert data.fills

    def swept():
        state = first
        for _ in range(20):
            state, _ = step(state, data, model)
        return state.energy

    with_it = swept()
    monkeypatch.setattr(complete, "refilled", lambda state, *given: given[:2])
    assert with_it < swept() - 5.0

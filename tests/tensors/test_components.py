"""Components to add and to drop, judged by the closed form of the residual."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.inference.loop import run
from bayespca.tensors.components import is_needed, shown
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from bayespca.tensors.start import with_one_more, with_shown
from tensors.simulated import artificial, with_holes

TRUTH = (3, 4, 3)


def settled(ranks, share=0.0, seed=0):
    """A model, its data, and a state with given ranks."""
    T = with_holes(artificial(seed, (20, 18, 16), TRUTH, snr=2.0)[0], share)
    data = tucker_cells(T, center=False)
    model, data = tucker_model(data, ranks=ranks).suited(data)
    state = model.start(data, np.random.default_rng(0))
    found = run(lambda state: model.step(state, data), state, max_iter=100, tol=1e-6)
    free, _ = tucker_model(data).suited(data)
    return free, data, found.state


def left(state, data):
    low = np.einsum("abc,ia,jb,kc->ijk", state.core.mean, *(rows.mean for rows in state.rows))
    return data.values - (low if data.seen is None else low * data.seen)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_shown_where_all_is_there(share, seed):
    model, data, state = settled(TRUTH, share, seed)
    for n in range(3):
        assert shown(state, left(state, data), data, n).kept == 0
    assert with_one_more(state, data, model) is None


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("n", range(3))
def test_a_mode_that_lacks_one_shows_it(share, n):
    ranks = tuple(rank - (m == n) for m, rank in enumerate(TRUTH))
    model, data, state = settled(ranks, share)
    assert [shown(state, left(state, data), data, m).kept for m in range(3)] == [
        int(m == n) for m in range(3)
    ]
    assert with_shown(state, data, model).ranks == TRUTH


def test_a_component_of_all_modes_is_the_rank_one_tensor():
    """No single mode shows a component that all modes lack."""
    rng = np.random.default_rng(0)
    a, b = (
        np.einsum("i,j,k->ijk", *(rng.normal(size=size) for size in (20, 18, 16))) for _ in range(2)
    )
    data = tucker_cells(10 * a + b + 0.3 * rng.normal(size=a.shape), center=False)
    model, data = tucker_model(data, ranks=(1, 1, 1)).suited(data)
    state = model.start(data, np.random.default_rng(0))
    state = run(lambda state: model.step(state, data), state, max_iter=50, tol=1e-6).state
    free, _ = tucker_model(data).suited(data)
    assert with_one_more(state, data, free).ranks == (2, 2, 2)


def test_strong_components_are_needed_and_weak_ones_tried():
    _, data, state = settled((4, 4, 4))
    needed = [is_needed(state, data, 0, h) for h in range(state.ranks[0])]
    assert sum(needed) == TRUTH[0]

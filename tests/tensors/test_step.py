"""Trials of fewer components between steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bayespca.inference import Info
from bayespca.tensors.step import WAIT, step_or_less


@dataclass(frozen=True)
class Falling:
    """A state whose energy halves its distance from the lowest one of its ranks in each step."""

    ranks: tuple[int, ...]
    energy: float
    wait: int = 0
    waited: int = 0
    young: int = 0


def stepping(lowest):
    calls = []

    def step(state):
        calls.append(state.ranks)
        goal = lowest[state.ranks]
        energy = goal + 0.5 * (min(state.energy, goal + 1) - goal)
        return Falling(state.ranks, energy), Info(energy, 1, 1.0)

    return step, calls


def less(state, n):
    if state.ranks[n] < 2:
        return None
    ranks = tuple(rank - (m == n) for m, rank in enumerate(state.ranks))
    return Falling(ranks, float("inf"))


LOWEST = {(2, 2): -1e5, (1, 2): -1e5 + 50, (2, 1): -1e5 - 50, (1, 1): -1e5 + 90}


def test_a_mode_that_can_do_with_less_has_less():
    step, _ = stepping(LOWEST)
    found, info = step_or_less(Falling((2, 2), -1e5 + 1), step, less, (0, 1))
    assert found.ranks == (2, 1)
    assert info.free_energy == found.energy < LOWEST[2, 2]
    assert found.wait == 0


def test_modes_whose_number_is_given_are_left_alone():
    step, _ = stepping(LOWEST)
    assert step_or_less(Falling((2, 2), -1e5 + 1), step, less, (0,))[0].ranks == (2, 2)


def test_what_was_in_vain_is_tried_more_and_more_seldom():
    step, calls = stepping(LOWEST)
    state, tried = Falling((2, 1), LOWEST[2, 1] + 1), []
    for _ in range(8 * WAIT):
        before = len(calls)
        state, _ = step_or_less(state, step, less, (0, 1))
        tried.append(len(calls) - before > 1)
    assert state.ranks == (2, 1)
    assert np.diff(np.flatnonzero(tried)).tolist() == [WAIT + 1, 2 * WAIT + 1, 4 * WAIT + 1]


def test_one_that_is_hardly_missed_stays():
    step, _ = stepping(LOWEST | {(2, 1): -1e5 - 5})
    assert step_or_less(Falling((2, 2), -1e5 + 1), step, less, (0, 1))[0].ranks == (2, 2)


@pytest.mark.parametrize("fall", [30.0, 200.0, 1e4])
def test_nothing_is_tried_while_the_free_energy_still_falls_steeply(fall):
    step, calls = stepping({(2, 2): -1e5})
    state = Falling((2, 2), -1e5 + fall)
    assert step_or_less(state, step, less, (0, 1))[0].ranks == (2, 2)
    assert len(calls) == 1


def test_nothing_is_tried_while_a_component_is_new():
    step, calls = stepping(LOWEST)
    assert step_or_less(Falling((2, 2), -1e5 + 1, young=1), step, less, (0, 1))[0].ranks == (2, 2)
    assert len(calls) == 1

"""Hastened rounds lead nearer to the end of all rounds than plain ones do."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import noisy
from bayespca.linear.scaled.acceleration import hastened
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.start import from_all_noise
from bayespca.linear.scaled.step import Rounds
from bayespca.lowrank.noise_models import BOTH, PER_FEATURE
from bayespca.spectrum.forms import ClosedForm


def distance(one, other):
    return np.linalg.norm(np.log(one.columns.precision / other.columns.precision))


@pytest.mark.parametrize(("kind", "noise"), [("columns", PER_FEATURE), ("both", BOTH)])
def test_a_round_leads_nearer_to_the_end(kind, noise):
    table = noisy_table(
        noisy(kind, 600, 40, 8, strength=1.0, random_state=0).X, center=True, rows=noise.rows
    )
    rounds = Rounds(table, noise, ClosedForm())
    state, _ = rounds.step(from_all_noise(rounds))
    last = state
    for _ in range(30):
        last, _ = rounds.step(last)
    end = rounds.updated(state)
    further = hastened(state.found, state.whitening, end)
    assert distance(further, last.whitening) < 0.6 * distance(end, last.whitening)


def test_nothing_follows_where_there_are_no_components():
    table = noisy_table(
        noisy("columns", 300, 20, 3, strength=0.0, random_state=0).X, center=True, rows=False
    )
    rounds = Rounds(table, PER_FEATURE, ClosedForm())
    state = from_all_noise(rounds)
    end = rounds.updated(state)
    assert hastened(state.found, state.whitening, end) is end

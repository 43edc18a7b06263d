"""Products with the data find what a decomposition of a whitened copy finds."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import noisy
from bayespca.linear.scaled import cells
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.solving import one_row_less
from bayespca.linear.scaled.step import state_of
from bayespca.linear.scaled.whitening import Whitening
from bayespca.lowrank.scales import given
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Spectrum

CENTRED = pytest.mark.parametrize("center", [True, False])


def table_of(X, center=True):
    return noisy_table(X, center=center, rows=True)


def whitening(shape, rows=True):
    rng, (n, p) = np.random.default_rng(0), shape
    own = given(rng.lognormal(0, 0.05, n)).at_unit_scale() if rows else None
    return Whitening(given(rng.lognormal(0, 0.05, p)).at_unit_scale(), own)


def both_ways(monkeypatch, table, noise):
    copied = state_of(noise, table, ClosedForm())
    monkeypatch.setattr(cells, "is_for_products", lambda values: True)
    return copied, state_of(noise, table, ClosedForm())


@CENTRED
@pytest.mark.parametrize("rows", [True, False])
def test_without_a_copy(monkeypatch, center, rows):
    X = noisy("white", 900, 1000, 3, strength=3.0, random_state=0).X + 5 * center
    table = table_of(X, center)
    copied, found = both_ways(monkeypatch, table, whitening(X.shape, rows))
    assert (copied.found.engine, found.found.engine) == ("gram", "randomized")
    assert found.found.solution.rank == copied.found.solution.rank == 3
    assert found.energy == pytest.approx(copied.energy, rel=1e-12)
    for name in ("squares", "location", "cross"):
        mine, theirs = (np.abs(getattr(state.found, name)) for state in (found, copied))
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7 * (theirs.max() + 1e-6))


def test_a_mean_far_from_zero(monkeypatch):
    """Products lose digits to a large mean, so a copy is made after all."""
    X = noisy("white", 900, 1000, 3, strength=3.0, random_state=0).X
    noise = whitening(X.shape)
    copied, found = both_ways(monkeypatch, table_of(X + 1e8), noise)
    assert found.found.engine == copied.found.engine == "gram"
    assert found.energy == pytest.approx(state_of(noise, table_of(X), ClosedForm()).energy)


def test_a_spectrum_that_cannot_be_cut_off(monkeypatch):
    X = noisy("white", 300, 400, 80, strength=3.0, random_state=0).X
    copied, found = both_ways(monkeypatch, table_of(X), whitening(X.shape))
    assert found.found.engine == copied.found.engine == "gram"
    assert found.energy == copied.energy


def test_a_value_that_leaves_room_only_with_the_row_that_follows_from_the_others():
    """The rest of the squares fits into seven values below the last one, but not into six."""
    squares = np.array([9.0, 1.44, 0.98])
    whole = Spectrum(np.sqrt(squares), (20, 10), squares.sum() + 7 * 0.98)
    less = one_row_less(whole)
    assert less.singular_values.tolist() == pytest.approx([3.0, 1.2])
    assert less.sum_of_squares == pytest.approx(whole.sum_of_squares)

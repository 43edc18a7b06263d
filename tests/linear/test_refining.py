"""Components refined by passes over the rows equal those of a decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.linear.scaled import cells
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.refining import near_to
from bayespca.linear.scaled.step import state_near, state_of
from bayespca.linear.scaled.whitening import Whitening
from bayespca.lowrank.scales import given
from bayespca.spectrum.forms import ClosedForm

KINDS = pytest.mark.parametrize("kind", ["columns", "both"])
NAMES = {"columns": "per-feature", "rows": "per-sample", "both": "both"}
SHAPES = pytest.mark.parametrize("shape", [(900, 100), (200, 300)])
CENTRED = pytest.mark.parametrize("center", [True, False])


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(cells, "MANY_CELLS", 1000)
    monkeypatch.setattr(cells, "FEW", 6)


def whitening(rng, shape, kind):
    n, p = shape
    rows = given(rng.lognormal(0, 0.1, n)).at_unit_scale() if kind == "both" else None
    return Whitening(given(rng.lognormal(0, 0.1, p)).at_unit_scale(), rows)


@KINDS
@SHAPES
@CENTRED
def test_a_pass_finds_what_a_decomposition_finds(few_are_many, kind, shape, center):
    rng, form = np.random.default_rng(0), ClosedForm()
    X = noisy("white", *shape, 4, strength=2.0, random_state=0).X + 5
    table = cells_of(X, center)
    one, other = whitening(rng, shape, kind), whitening(rng, shape, kind)
    begin, exact = state_of(one, table, form), state_of(other, table, form)
    found = begin
    for _ in range(12):
        found = state_near(other, table, form, near_to(found.found, found.whitening.columns))
        assert found.found.basis is not None
        assert found.energy >= exact.energy - 1e-9 * abs(exact.energy)
    assert found.energy == pytest.approx(exact.energy, rel=1e-9)
    assert found.found.solution.rank == exact.found.solution.rank
    for name in ("squares", "location", "cross"):
        mine, theirs = (np.abs(getattr(state.found, name)) for state in (found, exact))
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5 * theirs.max() + 1e-12)
    if kind == "both":
        mine, theirs = found.found.rows, table.scored(exact.found, other).rows
        np.testing.assert_allclose(
            mine.squares - mine.explained, theirs.squares - theirs.explained, rtol=1e-4
        )
        np.testing.assert_allclose(mine.leverage, theirs.leverage, rtol=1e-3, atol=1e-6)


def cells_of(X, center):
    table = noisy_table(X, center=center, rows=True)
    assert isinstance(table, cells.CellTable)
    return table


@pytest.mark.parametrize("strength", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("kind", ["columns", "rows", "both"])
def test_a_fit_ends_where_it_would_without(kind, strength, monkeypatch):
    """Wide data, so that a Gram matrix does not suffice for noise of columns."""
    X = noisy(kind, 150, 250, 4, strength=strength, random_state=0).X
    plain = BayesianPCA(noise=NAMES[kind]).fit(X)
    monkeypatch.setattr(cells, "MANY_CELLS", 1000)
    monkeypatch.setattr(cells, "FEW", 6)
    found = BayesianPCA(noise=NAMES[kind]).fit(X)
    assert found.n_components_ == plain.n_components_
    assert found.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-7)
    np.testing.assert_allclose(
        found.feature_noise_variance_, plain.feature_noise_variance_, rtol=1e-2
    )


def test_rounded_numbers(few_are_many):
    X = np.rint(2 * noisy("white", 300, 100, 3, strength=1.0, random_state=0).X)
    table, form = cells_of(X, True), ClosedForm()
    assert table.rounding.any()
    noise = whitening(np.random.default_rng(0), X.shape, "both")
    exact = found = state_of(noise, table, form)
    for _ in range(12):
        found = state_near(noise, table, form, near_to(found.found, noise.columns))
    assert found.found.basis is not None
    assert found.energy == pytest.approx(exact.energy, rel=1e-9)

"""Standard deviations of cells and of their means, against draws."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.discrete import reading
from bayespca.discrete.columns import TableColumn

N = 200_000
COLUMNS = {
    "normal": (TableColumn("x", "normal", center=3.0, scale=2.0), [np.log(0.3)]),
    "bernoulli": (TableColumn("x", "bernoulli", (False, True)), []),
    "categorical": (TableColumn("x", "categorical", ("a", "b", "c")), []),
    "ordinal": (TableColumn("x", "ordinal", (1.0, 2.0, 3.0, 4.0)), [0.1, -0.4]),
    "poisson": (TableColumn("x", "poisson", center=2.0), []),
    "negative-binomial": (TableColumn("x", "negative-binomial", center=2.0), [np.log(2.5)]),
}


def cell(kind, m, v):
    """One cell whose natural parameters have means from m on and variance v."""
    column, parameters = COLUMNS[kind]
    means = np.linspace(m, m + 0.4, column.width)[None]
    own = np.broadcast_to(parameters, (column.width, len(parameters)))
    return reading.ColumnView(column, means, np.full(means.shape, v), own)


def drawn_z(view, rng):
    m = np.repeat(view.m, N, axis=0)
    return view._replace(m=m + np.sqrt(view.v) * rng.normal(size=m.shape), v=np.zeros_like(m))


@pytest.mark.parametrize("v", [0.0, 0.4])
@pytest.mark.parametrize("kind", COLUMNS)
def test_deviations_are_those_of_draws(kind, v):
    view, rng = cell(kind, -0.2, v), np.random.default_rng(0)
    z = drawn_z(view, rng)
    of_means = reading.expected(z).std(axis=0)
    found = reading.deviations(view, noise=False)[0]
    np.testing.assert_allclose(found, of_means, rtol=0.03, atol=1e-7)
    values = reading.drawn(z, rng)
    cells = values[:, None]
    if kind in ("categorical", "ordinal"):
        cells = values[:, None] == np.arange(len(view.column.levels))
    found = reading.deviations(view, noise=True)[0]
    np.testing.assert_allclose(found, cells.std(axis=0), rtol=0.03)


@pytest.mark.parametrize("kind", COLUMNS)
def test_deviations_of_codes(kind):
    view, rng = cell(kind, 0.3, 0.4), np.random.default_rng(1)
    found = reading.deviations_of_codes(view, noise=True)
    if kind == "categorical":
        assert np.isnan(found).all()
        return
    assert found[0] == pytest.approx(reading.drawn(drawn_z(view, rng), rng).std(), rel=0.03)
    assert reading.deviations_of_codes(view, noise=False)[0] < found[0]

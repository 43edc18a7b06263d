"""Tables side by side, as the sweeps see them."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.views import data
from bayespca.views.data import views_table
from bayespca.views.start import start
from views.simulated import pierced, side_by_side, simulated


def wide(holes=False, **sizes):
    tables = simulated(3, **sizes)[1]
    X, view = side_by_side(pierced(tables, 0.15) if holes else tables)
    return X, view, len(tables)


@pytest.mark.parametrize("holes", [False, True])
def test_how_many_columns_are_looked_at_together_changes_nothing(monkeypatch, holes):
    given = wide(holes)
    whole = views_table(*given)
    monkeypatch.setattr(data, "AT_ONCE", 3)
    parts = views_table(*given)
    np.testing.assert_allclose(parts.rows.unit, whole.rows.unit, rtol=1e-13)
    np.testing.assert_allclose(parts.rows.location, whole.rows.location, rtol=1e-14)
    np.testing.assert_allclose(parts.rows.values, whole.rows.values, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_units_of_very_small_and_large_tables(size):
    X, view, n_views = wide()
    usual, far = views_table(X, view, n_views), views_table(X * size, view, n_views)
    np.testing.assert_allclose(far.rows.unit, usual.rows.unit * size, rtol=1e-12)


@pytest.mark.parametrize("holes", [False, True])
def test_a_table_in_the_memory_of_what_it_is_made_of(holes):
    X, view, n_views = wide(holes)
    apart = views_table(X, view, n_views)
    copy = X.copy()
    inside = views_table(copy, view, n_views, overwrite=True)
    np.testing.assert_array_equal(inside.rows.values, apart.rows.values)
    assert np.shares_memory(inside.rows.values, copy)
    assert not np.shares_memory(apart.rows.values, X)


def test_noise_that_is_known_is_where_sweeps_start():
    X, view, n_views = wide()
    std = np.where(view == 0, 0.5, np.nan)
    std[view == 1] = np.linspace(1.0, 2.0, int((view == 1).sum()))
    table = views_table(X, view, n_views, std)
    assert np.isnan(table.noise).tolist() == [False, False, True]
    begun = start(table, 5)
    for v in (0, 1):
        js = table.columns[v]
        found = np.sqrt(begun.noise[v]) * table.rows.unit[js]
        np.testing.assert_allclose(found, std[view == v])

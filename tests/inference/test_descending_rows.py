"""Descents of many rows at once: each row ends as it would alone."""

from __future__ import annotations

import numpy as np
from scipy.optimize import rosen, rosen_der

from bayespca.inference.descending_rows import rows_descended


def valleys(shifts):
    def objective(x, index):
        moved = x - shifts[index]
        return rosen(moved.T), rosen_der(moved.T).T

    return objective


def test_each_row_ends_at_its_minimum():
    rng = np.random.default_rng(0)
    shifts = rng.normal(size=(30, 4))
    found = rows_descended(
        valleys(shifts), shifts + rng.normal(size=(30, 4)), most=500, settled=1e-14
    )
    values = rosen((found - shifts).T)
    # Rosenbrock's function of four variables has a second minimum.
    assert (np.minimum(values, np.abs(values - 3.7014)) < 1e-4).all()


def test_rows_do_not_know_of_each_other():
    rng = np.random.default_rng(1)
    shifts, start = rng.normal(size=(2, 20, 3))
    whole = rows_descended(valleys(shifts), start, most=60, settled=1e-10)
    order = rng.permutation(20)
    mixed = rows_descended(valleys(shifts[order]), start[order], most=60, settled=1e-10)
    np.testing.assert_allclose(mixed, whole[order], rtol=1e-9)
    alone = rows_descended(valleys(shifts[:1]), start[:1], most=60, settled=1e-10)
    np.testing.assert_allclose(alone, whole[:1], rtol=1e-9)

"""L-BFGS as a pure step: it ends at the minimum, never rises, and can be interrupted.

Of many rows at once, each ends as it would alone.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import rosen, rosen_der

from bayespca.inference.descent import begun, descended, rows_descended


def rosenbrock(x):
    return float(rosen(x)), np.asarray(rosen_der(x))


def test_it_ends_at_the_minimum():
    now = begun(rosenbrock, np.full(20, -1.2))
    energies = [now.energy]
    for _ in range(40):
        now = descended(rosenbrock, now, 10)
        energies.append(now.energy)
    assert (np.diff(energies) <= 0).all()
    np.testing.assert_allclose(now.x, 1.0, atol=1e-6)


def test_in_one_go_or_in_several_is_the_same():
    first = begun(rosenbrock, np.full(6, 0.3))
    whole = descended(rosenbrock, first, 30)
    parts = first
    for _ in range(6):
        parts = descended(rosenbrock, parts, 5)
    np.testing.assert_array_equal(whole.x, parts.x)


def test_places_without_a_value_are_stepped_back_from():
    def edge(x):
        if (x <= 0).any():
            return np.inf, np.zeros_like(x)
        return float((x - np.log(x)).sum()), 1 - 1 / x

    found = descended(edge, begun(edge, np.array([5.0, 0.01])), 60)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


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

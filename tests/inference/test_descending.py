"""L-BFGS as a pure step: it ends at the minimum, never rises, and can be interrupted."""

from __future__ import annotations

import numpy as np
from scipy.optimize import rosen, rosen_der

from bayespca.inference.descending import begun, descended


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

"""The rotation of factors: its gradient and its minimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bayespca.views.rotation import FactorRotation

ACTIVE = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 1]], bool)


def rotation(seed=0, active=ACTIVE):
    rng = np.random.default_rng(seed)
    V, H = active.shape
    A = rng.normal(size=(30, H))
    B = rng.normal(size=(V, 20, H)) * active[:, None, :]
    return FactorRotation(A.T @ A, np.einsum("vjh,vjk->vhk", B, B), active, np.full(V, 20.0), 29.0)


def test_the_gradient_is_that_of_the_cost():
    problem = rotation()
    T = np.where(problem.allowed, np.random.default_rng(1).normal(size=(4, 4)), 0.0) + 3 * np.eye(4)
    _, gradient = problem.cost(T)
    numerical = approx_fprime(T.ravel(), lambda x: problem.cost(x.reshape(T.shape))[0], 1e-7)
    free = problem.allowed.ravel()
    np.testing.assert_allclose(gradient.ravel()[free], numerical[free], rtol=1e-4, atol=1e-3)


def test_a_factor_is_mixed_only_into_those_that_are_wherever_it_is():
    allowed = rotation().allowed
    assert allowed.diagonal().all()
    # The second is in views 0 and 1, the third in 0 and 2: neither may be mixed into the other.
    assert not allowed[1, 2]
    assert not allowed[2, 1]
    assert allowed[0].all()
    assert not allowed[1:, 0].any()


def test_the_best_turn_is_lower_and_has_scores_of_unit_size():
    problem = rotation(active=np.ones((3, 4), bool))
    T = problem.best()
    assert problem.cost(T)[0] < problem.cost(np.eye(4))[0]
    R = np.linalg.inv(T)
    np.testing.assert_allclose(np.diag(R.T @ problem.Saa @ R), problem.freedom, rtol=1e-10)


def test_one_view_is_turned_to_where_both_factors_are_orthogonal():
    """Hadamard: with one view the minimum is where both moments are diagonal."""
    problem = rotation(active=np.ones((1, 3), bool))
    T = problem.best(iterations=600)
    R = np.linalg.inv(T)
    for moments in (R.T @ problem.Saa @ R, T @ problem.Sbb[0] @ T.T):
        size = np.sqrt(np.outer(moments.diagonal(), moments.diagonal()))
        assert np.abs(moments / size - np.eye(3)).max() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_few_steps_lead_as_low_as_a_thousand_of_a_general_descent(sparse):
    """Twelve factors in random views, turned at random where the pattern allows it."""
    rng = np.random.default_rng(4)
    V, H, p = 4, 12, 80
    pattern = rng.random((V, H)) < 0.5
    pattern[rng.integers(V, size=H), np.arange(H)] = True
    A = rng.normal(size=(200, H))
    B = rng.normal(size=(V, p, H)) * pattern[:, None, :] + 0.05 * rng.normal(size=(V, p, H))
    active = pattern if sparse else np.ones_like(pattern)
    B = np.where(active[:, None, :], B, 0.0)
    given = np.einsum("vjh,vjk->vhk", B, B)
    problem = FactorRotation(A.T @ A, given, active, np.full(V, float(p)), 199.0)
    start = np.where(problem.allowed, rng.normal(size=(H, H)), 0.0) + 4 * np.eye(H)
    R = np.linalg.inv(start)
    Saa, Sbb = R.T @ problem.Saa @ R, start @ given @ start.T
    turned = FactorRotation(Saa, Sbb, active, problem.sizes, 199.0)
    free = turned.allowed

    def of_entries(x):
        T = np.zeros((H, H))
        T[free] = x
        value, gradient = turned.cost(T)
        return value, gradient[free]

    found = minimize(
        of_entries, np.eye(H)[free], jac=True, method="L-BFGS-B", options={"maxiter": 1000}
    )
    assert turned.cost(turned.best())[0] < found.fun + 0.05
    # A single step ends far above.
    assert turned.cost(turned.best(1))[0] > found.fun + 10

"""What a plan makes of a Gram matrix, and of rows where that is not precise enough."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bayespca.engines.gram import Eigen, solved
from bayespca.spectrum import Spectrum, solve


def matrix(n, p, strongest=30.0):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, p))
    return V + strongest * np.outer(rng.normal(size=n), rng.normal(size=p))


def run(V, scale, *, gram=False, rows=False, plan=solve):
    return solved(
        V.T @ V if gram else None,
        V if rows else None,
        scale,
        spectrum=lambda squares: Spectrum(
            np.sqrt(np.maximum(squares[: min(V.shape)], 0)),
            V.shape[::-1],
            float(((V / scale) ** 2).sum()),
        ),
        plan=plan,
    )


@pytest.mark.parametrize("shape", [(50, 8), (8, 50)])
@pytest.mark.parametrize("known", [{"gram": True}, {"rows": True}, {"gram": True, "rows": True}])
def test_either_side_gives_the_singular_values(shape, known):
    V, scale = matrix(*shape), np.linspace(0.5, 2, shape[1])
    found = run(V, scale, **known)
    _, gamma, right = np.linalg.svd(V / scale, full_matrices=False)
    assert found.spectrum.singular_values == pytest.approx(gamma)
    assert found.solution.rank >= 1
    top = found.right(found.solution.rank)
    assert np.abs(top @ right[: len(top)].T) == pytest.approx(np.eye(len(top)), abs=1e-8)


def test_rows_decide_where_squares_have_lost_the_noise():
    """The noise is 1e-9 of the strongest component, beside which its square is rounding."""
    V = matrix(60, 6, strongest=1e9)
    plan = partial(solve, noise_variance=1.0)
    gamma = np.linalg.svd(V, compute_uv=False)
    assert run(V, np.ones(6), gram=True, rows=True, plan=plan).spectrum.singular_values == (
        pytest.approx(gamma, rel=1e-6)
    )
    without = run(V, np.ones(6), gram=True, plan=plan).spectrum.singular_values
    assert abs(without[-1] / gamma[-1] - 1) > 1e-6


def test_top_eigenvectors_of_any_number():
    symmetric = np.cov(matrix(40, 7).T)
    values, vectors = np.linalg.eigh(symmetric)
    eigen = Eigen.of(symmetric)
    assert eigen.values == pytest.approx(values)
    for k in (0, 1, 3, 7):
        top = eigen.top(k)
        assert top.shape == (7, k)
        assert np.abs(np.sum(top * vectors[:, ::-1][:, :k], axis=0)) == pytest.approx(np.ones(k))

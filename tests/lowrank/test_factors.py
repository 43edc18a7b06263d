"""Inverses of matrices that rounding has made singular."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.lowrank.factors import inverse
from bayespca.tensors.state import graded_inverses

# Powers of 2, so that products are exact and dependent columns stay dependent.
SIZES = np.array([1.0, 2.0**-20, 2.0**17])


def test_an_inverse():
    A = np.random.default_rng(0).normal(size=(5, 3))
    found = inverse(A.T @ A)
    np.testing.assert_allclose(found @ (A.T @ A), np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("sizes", [np.ones(3), SIZES])
def test_the_inverse_of_dependent_columns_is_as_large_as_rounding_allows(sizes):
    """At unit diagonal, the eigenvalues of a matrix of rank 1 are 3 and twice what rounding is."""
    M = np.outer(sizes, sizes)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(M)
    found = inverse(M)
    np.testing.assert_array_equal(found, found.T)
    values = np.linalg.eigvalsh(found * M)
    np.testing.assert_allclose(values[1:], 1 / (3 * np.finfo(float).eps), rtol=1e-12)
    assert abs(values[0]) < 1


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_graded_inverses(ridge):
    """Precisions of any size, singular without a ridge; log determinants are those of inverses."""
    M = (np.ones((3, 3)) + ridge * np.eye(3)) * np.outer(SIZES, SIZES)
    found, logs = graded_inverses(M[None])
    np.testing.assert_allclose(M @ found[0] @ M, M, rtol=1e-12 if ridge else 1e-3)
    # Scaled to sizes of about 1, because their product may be of any size.
    scaled = found[0] * np.outer(SIZES, SIZES)
    expected = np.linalg.slogdet(scaled)[1] - 2 * np.log(SIZES).sum()
    np.testing.assert_allclose(logs[0], expected, rtol=1e-3)

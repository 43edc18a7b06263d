"""Functions of many small matrices."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.arrays.packing import roots


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_roots_of_covariances_that_may_be_singular(rank):
    factors = np.random.default_rng(0).normal(size=(7, 4, rank))
    covariances = factors @ np.swapaxes(factors, 1, 2)
    found = roots(covariances)
    np.testing.assert_allclose(found @ np.swapaxes(found, 1, 2), covariances, atol=1e-12)

"""Averages of the logistic function against quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.discrete.likelihoods.bernoulli import averages
from oracles import binary_pca as oracle


@pytest.mark.parametrize("mean", [-20.0, -3.0, 0.0, 0.4, 7.0])
@pytest.mark.parametrize("variance", [0.0, 1e-3, 1.0, 30.0])
def test_averages_are_those_of_quadrature(mean, variance):
    found = averages(np.array([mean]), np.array([variance]))
    wanted = (
        oracle.average(oracle.log_one_plus_exp, mean, variance),
        oracle.average(oracle.sigmoid, mean, variance),
        oracle.average(lambda z: oracle.sigmoid(z) * oracle.sigmoid(-z), mean, variance),
    )
    assert np.concatenate(found) == pytest.approx(wanted, abs=2e-8)


def test_derivatives_belong_to_each_other():
    """Steps lower the free energy only if the slopes belong to the function evaluated."""
    rng = np.random.default_rng(0)
    m, v, e = 4 * rng.normal(size=50), rng.gamma(1.0, 3.0, size=50), 1e-5
    found = averages(m, v)
    by_m = (averages(m + e, v).log_norm - averages(m - e, v).log_norm) / (2 * e)
    by_v = (averages(m, v + e).log_norm - averages(m, v - e).log_norm) / (2 * e)
    assert found.probability == pytest.approx(by_m, abs=1e-9)
    assert 0.5 * found.slope == pytest.approx(by_v, abs=1e-9)

"""Rank rules that use the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import noisy
from bayespca.linear import rank_rules
from bayespca.linear.rank_rules import bi_cross_validation, sign_flips


def centred(kind, *size, **options):
    X = noisy(kind, *size, random_state=0, **options).X
    return X - X.mean(axis=0)


@pytest.mark.parametrize("rule", [bi_cross_validation, sign_flips])
@pytest.mark.parametrize(("strength", "rank"), [(0.6, 3), (0.0, 0)])
def test_the_rank_of_white_noise(rule, strength, rank):
    X = centred("white", 200, 60, 3, strength=strength)
    assert rule(X, np.random.default_rng(0)) == rank
    assert rule(X.T, np.random.default_rng(0)) == rank


def test_signs_keep_noise_that_differs_between_columns():
    """White noise of the same variance would be a poor reference."""
    X = centred("columns", 500, 200, 5, strength=0.0)
    assert sign_flips(X, np.random.default_rng(0)) == 0


def test_an_exact_product_is_predicted_without_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 15))
    rows, columns = np.arange(20) < 4, np.arange(15) < 3
    errors = rank_rules._errors(X, rows, columns, most=5)
    assert errors[0] == pytest.approx(np.sum(X[:4, :3] ** 2))
    assert errors[1] > 1e-3
    assert errors[2:] == pytest.approx(np.zeros(4), abs=1e-20)

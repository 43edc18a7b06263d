"""The compiled kernel computes what NumPy does, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.missing import kernels
from bayespca.missing.data import _hashes, observed, patterns_of


def problem(n, m, H, seed=0):
    """Random Gram matrices for m patterns, and n rows spread over them."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(m, H + 3, H))
    gram = (np.swapaxes(factors, 1, 2) @ factors)[:, *np.triu_indices(H)]
    pattern = np.sort(np.r_[np.arange(m), rng.integers(0, m, n - m)])
    order = rng.permutation(n)
    starts = np.r_[0, np.cumsum(np.bincount(pattern, minlength=m))]
    pull, weights = rng.normal(size=(n, H)), rng.uniform(0.5, 1, m)
    return gram, pull, order, starts, weights, rng.uniform(0.1, 2, H), 0.7


@pytest.mark.parametrize(("n", "m", "H"), [(40, 40, 5), (60, 7, 3), (5, 1, 1), (30, 30, 0)])
def test_compiled_loops_are_numpys(n, m, H):
    from bayespca.missing.compiled import by_loops

    given = problem(n, m, H)
    for found, expected in zip(by_loops(*given), kernels.by_numpy(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_the_number_of_threads_changes_nothing():
    import numba

    from bayespca.missing.compiled import by_loops

    given = problem(500, 50, 8)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = by_loops(*given)
    finally:
        numba.set_num_threads(before)
    for found, expected in zip(by_loops(*given), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_fit_is_the_same_either_way(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 10)) + rng.normal(size=(200, 10))
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    plain = BayesianPCA().fit(Y)
    monkeypatch.setattr(kernels, "MANY", 0.0)
    compiled = BayesianPCA().fit(Y)
    assert compiled.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-10)
    np.testing.assert_allclose(compiled.impute(Y), plain.impute(Y), atol=1e-8)


@pytest.mark.parametrize("p", [1, 7, 8, 64, 65, 300])
def test_patterns_are_the_different_rows(p):
    rng = np.random.default_rng(p)
    few = rng.random((12, p)) < 0.5
    seen = few[rng.integers(0, 12, 200)]
    patterns, which = patterns_of(seen)
    np.testing.assert_array_equal(patterns[which] > 0, seen)
    assert len(patterns) == len(np.unique(seen, axis=0))


def test_hashes_that_collide_do_no_harm(monkeypatch):
    seen = np.random.default_rng(0).random((50, 9)) < 0.5
    assert len(np.unique(_hashes(seen))) > 30
    monkeypatch.setattr("bayespca.missing.data._hashes", lambda seen: np.zeros(len(seen)))
    patterns, which = patterns_of(seen)
    np.testing.assert_array_equal(patterns[which] > 0, seen)


def test_rows_are_sorted_by_pattern():
    Y = np.where(np.random.default_rng(0).random((30, 3)) < 0.4, np.nan, 1.0)
    data = observed(Y, center=True, scale=False)
    for m in range(len(data.patterns)):
        rows = data.order[data.starts[m] : data.starts[m + 1]]
        assert (data.pattern[rows] == m).all()

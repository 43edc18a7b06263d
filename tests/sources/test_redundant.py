"""Columns that follow from others are found, whatever the order, the units and the precision."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.sources.redundant import Combinations, combinations


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def left_out(X):
    """The columns that follow from others; the equation must hold in every row."""
    found = combinations(X)
    if found:
        wrong = np.abs(found.of(X.astype(np.float64)) - X[:, found.columns])
        assert wrong.max() <= 100 * np.finfo(X.dtype).eps * np.abs(X).sum(axis=1).max()
        found.check()
    return found.columns.tolist()


def shares(rng, n, p):
    parts = np.exp(rng.normal(size=(n, p)) * np.linspace(0.5, 1, p))
    return 100 * parts / parts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_copies_multiples_and_sums(rng, dtype, unit):
    X = 5 + rng.normal(size=(60, 6))
    made = (X[:, 0], 2.54 * X[:, 1] + 32, X[:, 2] + X[:, 3], X[:, 4] - 0.5 * X[:, 5])
    table = (np.column_stack([X, *made]) * unit).astype(dtype)
    found = left_out(table)
    # The last relation has no natural choice.
    assert {6, 7, 8} < set(found)
    assert len(found) == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(80, 10), (9, 30)])
def test_one_total_of_all_rows(rng, dtype, shape):
    X = shares(rng, *shape).astype(dtype)
    assert left_out(X) == [int(X.var(axis=0).argmax())]
    assert left_out(np.column_stack([X, X[:, 0]])) == sorted(
        [int(X.var(axis=0).argmax()), shape[1]]
    )
    assert left_out(np.round(X.astype(np.float64), 1)) == []


def test_the_order_does_not_decide(rng):
    X = rng.normal(size=(70, 8))
    table = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0] + X[:, 1] + X[:, 2], shares(rng, 70, 4)])
    closed = 10 + int(table[:, 10:].var(axis=0).argmax())
    for _ in range(5):
        places, rows = rng.permutation(table.shape[1]), rng.permutation(70)
        assert sorted(places[left_out(table[rows][:, places])].tolist()) == [8, 9, closed]


def test_a_copy_of_a_total_follows_from_the_parts(rng):
    X = rng.normal(size=(50, 4))
    total = X[:, 0] + X[:, 1]
    found = combinations(np.column_stack([X, total, 3 * total]))
    assert found.columns.tolist() == [4, 5]
    np.testing.assert_allclose(found.weights(6).toarray()[:2], [[1, 3], [1, 3]])


def test_copies_among_more_columns_than_rows(rng):
    X = rng.normal(size=(30, 200))
    assert left_out(np.hstack([X, X[:, [7, 7, 150]]])) == [200, 201, 202]


def test_holes_must_agree(rng):
    X = rng.normal(size=(40, 3))
    X[rng.random((40, 3)) < 0.1] = np.nan
    table = np.column_stack([X, X[:, 0], X[:, 1]])
    table[5, 4] = 1.0 if np.isnan(table[5, 4]) else np.nan
    assert combinations(table).columns.tolist() == [3]


@pytest.mark.parametrize("n", [60, 600])
def test_what_holds_in_some_rows_is_no_rule(rng, n):
    X = rng.normal(size=(n, 4))
    X[:, 3] = X[:, 0] + X[:, 1]
    X[n // 2 + 1, 3] += 0.1
    assert left_out(X) == []


def test_low_rank_without_noise_is_no_set_of_constraints(rng):
    assert left_out(rng.normal(size=(50, 3)) @ rng.normal(size=(3, 10))) == []
    assert left_out(np.outer(rng.normal(size=50), np.ones(5))) == []


def test_constant_columns_are_no_copies(rng):
    X = rng.normal(size=(30, 5))
    X[:, 1:3] = 7.0
    assert left_out(X) == []
    assert left_out(np.full((30, 5), 2.0)) == []


def test_holes_that_an_equation_determines():
    found = Combinations(
        columns=np.array([2]),
        offset=np.array([1.0]),
        target=np.array([0, 0]),
        source=np.array([0, 1]),
        coefficient=np.array([1.0, 2.0]),
    )
    X = np.array([[1, 2, np.nan], [np.nan, 2, 6], [1, np.nan, 6], [np.nan, np.nan, 6]])
    np.testing.assert_allclose(found.solved(X)[:3], [[1, 2, 6]] * 3)
    assert np.isnan(found.solved(X)[3]).sum() == 2
    with pytest.raises(ValueError, match="Combinations"):
        Combinations(columns=np.array([2]), offset=np.empty(0)).check()

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
        largest = np.nansum(np.abs(X), axis=1).max()
        assert np.nanmax(wrong) <= 100 * np.finfo(X.dtype).eps * largest
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


def test_relations_hold_wherever_their_columns_are_known(rng):
    """Copies may have holes in different rows, and sums any holes: what is known fills the rest."""
    X = rng.normal(size=(60, 4))
    table = np.column_stack([X, X[:, 0], X[:, 1], X[:, 2] - X[:, 3] + 1])
    seen = table.copy()
    seen[rng.random(table.shape) < 0.05] = np.nan
    seen[5, 4], seen[5, 0] = np.nan, table[5, 0]
    found = combinations(seen)
    assert found.columns.size == 3
    assert sum(len(set(pair) & set(found.columns.tolist())) for pair in ([0, 4], [1, 5])) == 2
    filled = found.solved(seen)
    np.testing.assert_allclose(filled[~np.isnan(filled)], table[~np.isnan(filled)], atol=1e-12)
    assert filled[5, 4] == table[5, 0]
    assert np.isnan(filled).sum() < np.isnan(seen).sum()


def test_a_sum_that_fails_beside_a_hole_elsewhere_is_none(rng):
    X = rng.normal(size=(60, 5))
    X[:, 4] = X[:, 0] + X[:, 1]
    X[7, 2] = np.nan
    assert left_out(X) == [4]
    X[7, 4] += 0.5
    assert left_out(X) == []


def test_few_rows_without_holes_show_no_sums(rng):
    X = rng.normal(size=(60, 5))
    X[:, 4] = X[:, 0] + X[:, 1]
    X[6:, 2] = np.nan
    assert left_out(X) == []


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


def test_holes_are_filled_so_that_known_combinations_hold(rng):
    """Beside the formula of conditional normal distributions, written out for all columns."""
    X = rng.normal(size=(30, 6))
    table = np.column_stack([X, X[:, :4].sum(axis=1), X[:, 2] + X[:, 3] - X[:, 4]])
    known, variance = combinations(table), rng.uniform(0.5, 2.0, 8)
    others = np.setdiff1d(np.arange(8), known.columns)
    seen = np.where(rng.random(table.shape) < 0.3, np.nan, table)
    begun = known.solved(seen)
    guess = np.where(np.isnan(begun), rng.normal(size=begun.shape), begun)
    filled, left = known.given_known(seen, guess, variance)
    W = known.weights(8).toarray()
    assert np.isnan(begun).any(axis=1).sum() > 10
    for i, row in enumerate(begun):
        free = np.intersect1d(np.flatnonzero(np.isnan(row)), others)
        there = [
            j for j, c in enumerate(known.columns) if not np.isnan(row[c]) and W[free, j].any()
        ]
        A, V = W[free][:, there].T, np.diag(variance[free])
        gain = V @ A.T @ np.linalg.pinv(A @ V @ A.T)
        of_guess = known.of(guess[[i]])[0][there]
        expected = guess[i, free] + gain @ (row[known.columns[there]] - of_guess)
        np.testing.assert_allclose(filled[i, free], expected, atol=1e-9)
        np.testing.assert_allclose(left[i, free], np.diag(V - gain @ A @ V) / variance[free])
        np.testing.assert_allclose(known.of(filled[[i]])[0][there], row[known.columns[there]])

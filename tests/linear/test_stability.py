"""Half samples against a decomposition of each half."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import low_rank
from bayespca.linear import stability
from bayespca.linear.stability import WhiteRows, of_halves
from bayespca.spectrum import Spectrum, solve


@pytest.fixture
def rng():
    return np.random.default_rng(0)


SHAPES = [(60, 12), (12, 60), (7, 5)]


def evb(spectrum):
    return solve(spectrum, other_ranks=False).rank


def brute_force(rows, chosen):
    """Rank and overlaps of some rows by their singular value decomposition."""
    Z = rows.values[chosen]
    if rows.level is not None:
        r = rows.level[chosen] / np.linalg.norm(rows.level[chosen])
        Z = Z - np.outer(r, r @ Z)
    M = len(chosen) - (rows.level is not None)
    _, gamma, V = np.linalg.svd(Z, full_matrices=False)
    k = solve(Spectrum(gamma[: min(M, Z.shape[1])], (Z.shape[1], M))).rank
    return k, ((V[:k] @ rows.directions.T) ** 2).sum(axis=0)


def rows_of(shape, *, level, rng, rank=2):
    X = low_rank(*shape, rank, strength=1.5, random_state=3).X
    V = np.linalg.svd(X - X.mean(axis=0))[2][:rank]
    r = {"none": None, "equal": np.ones(len(X)), "unequal": rng.uniform(0.5, 2, len(X))}[level]
    return WhiteRows(X - X.mean(axis=0), r, V)


@pytest.fixture
def drawn(monkeypatch):
    """A function that returns the rows of each half, whether drawn as blocks or singly."""
    blocks, halves = [], []
    make_blocks, make_halves = stability._blocks, stability._halves_of

    def recorded_blocks(n, rng):
        blocks.extend(make_blocks(n, rng))
        return blocks

    def recorded_halves(n, rng):
        for half in make_halves(n, rng):
            halves.append(half)
            yield half

    monkeypatch.setattr(stability, "_blocks", recorded_blocks)
    monkeypatch.setattr(stability, "_halves_of", recorded_halves)
    return lambda: [np.concatenate([blocks[b] for b in h]) if blocks else h for h in halves]


def check(rows, found, halves, **tolerance):
    for chosen, rank, overlap in zip(halves, found.ranks, found.overlaps, strict=True):
        expected, squares = brute_force(rows, chosen)
        assert rank == expected
        assert overlap == pytest.approx(squares, **tolerance)


@pytest.mark.parametrize("level", ["none", "equal", "unequal"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_half_is_what_it_is_alone(shape, level, drawn, rng):
    rows = rows_of(shape, level=level, rng=rng)
    found = of_halves(rows, 9, rng, evb)
    assert found.overlaps.shape == (9, 2)
    check(rows, found, drawn(), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("level", ["none", "equal", "unequal"])
@pytest.mark.parametrize("limit", ["DECOMPOSED", "LARGEST"])
@pytest.mark.parametrize("shape", [(200, 90), (90, 200)])
def test_large_ones_begin_with_the_directions_of_all_rows(
    shape, limit, level, drawn, rng, monkeypatch
):
    monkeypatch.setattr(stability, limit, 20)
    rows = rows_of(shape, level=level, rng=rng)
    found = of_halves(rows, 6, rng, evb)
    assert (found.ranks == 2).all()
    check(rows, found, drawn(), rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_halves_have_no_row_in_common(shape, drawn, rng):
    of_halves(rows_of(shape, level="equal", rng=rng), 6, rng, evb)
    halves = drawn()
    for one, other in zip(halves[::2], halves[1::2], strict=True):
        assert not set(one) & set(other)
        assert abs(len(one) - len(other)) <= 1 + shape[0] // stability.BLOCKS
    assert len({tuple(sorted(half)) for half in halves}) == len(halves)

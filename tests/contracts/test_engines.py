"""One table: engines × shapes × dtypes × methods give the same ranks, noise and subspaces."""

from __future__ import annotations

import sys
from functools import partial

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from bayespca.engines import ENGINES, decompose
from bayespca.sources import open_source
from bayespca.sources.partitions import partitioned
from bayespca.spectrum import METHODS, solve

RANK = 4


def tall(rng):
    return low_rank(rng, 400, 60)


def wide(rng):
    return low_rank(rng, 60, 400)


def square(rng):
    return low_rank(rng, 120, 120)


def rank_deficient(rng):
    """A matrix of rank exactly 30 of 60, with noise in those 30 directions only."""
    return low_rank(rng, 400, 30) @ np.linalg.qr(rng.normal(size=(60, 60)))[0][:30]


def constant_columns(rng):
    X = low_rank(rng, 400, 60)
    X[:, [0, 17]] = 3.25
    return X


def offset(rng):
    return low_rank(rng, 400, 60) + 300 * rng.normal(size=60)


def low_rank(rng, n, p, rank=RANK):
    return 2 * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=(n, p))


SHAPES = [tall, wide, square, rank_deficient, constant_columns, offset]
TOLERANCE = {np.float64: 1e-7, np.float32: 3e-4}


def data_for(engine, X):
    if engine == "sparse":
        return sp.csr_array(X)
    if engine == "dask":
        return partitioned(da.from_array(X, chunks=(unequal(X.shape[0]), unequal(X.shape[1]))))
    return open_source(X, block_bytes=1 << 14) if engine == "streaming" else X


def unequal(n):
    """Sizes of unequal chunks that add up to n."""
    return (1, n // 3, n - 1 - n // 3) if n > 3 else (n,)


def plan_for(method):
    options = {"max_rank": RANK} if method == "ml" else {}
    return partial(solve, method=method, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("center", [True, False])
def test_engines_agree_with_the_dense_one(engine, shape, dtype, center):
    X = shape(np.random.default_rng(1)).astype(dtype)
    plan = plan_for("evb")
    reference = decompose(X.astype(np.float64), plan=plan, center=center, engine="dense")
    found = decompose(data_for(engine, X), plan=plan, center=center, engine=engine, random_state=0)
    ours, theirs = plan(found.spectrum), plan(reference.spectrum)
    tol = TOLERANCE[dtype]
    if shape is offset and not center:
        tol *= 100  # the offset is a component 10⁴ times as strong as the others
    assert found.spectrum.shape == reference.spectrum.shape
    assert ours.rank == theirs.rank
    if shape is rank_deficient:
        # Only rounding errors are left: their size is arbitrary, but small.
        rounding = np.finfo(dtype).eps * reference.spectrum.singular_values[0]
        assert np.sqrt(ours.noise_variance) * (np.sqrt(60) + np.sqrt(399)) < 17 * rounding
    else:
        assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=10 * tol)
        assert ours.free_energy == pytest.approx(theirs.free_energy, rel=tol)
    k = ours.rank
    known = found.spectrum.singular_values[:k], reference.spectrum.singular_values[:k]
    assert known[0] == pytest.approx(known[1], rel=tol)
    W, W0 = found.right(k), reference.right(k)
    assert W.dtype == dtype
    assert np.abs(W @ W.T - np.eye(k)).max() < 10 * tol
    overlap = np.linalg.svd(W @ W0.T, compute_uv=False)
    assert overlap.min(initial=1.0) > 1 - tol
    assert np.asarray(found.mean) == pytest.approx(np.asarray(reference.mean), abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("engine", ["gram", "randomized", "sparse", "streaming", "dask"])
@pytest.mark.parametrize("shape", [tall, wide])
def test_methods_agree_over_engines(method, engine, shape):
    X = shape(np.random.default_rng(2))
    plan = plan_for(method)
    found = decompose(data_for(engine, X), plan=plan, engine=engine, random_state=0)
    reference = decompose(X, plan=plan, engine="dense")
    ours, theirs = plan(found.spectrum), plan(reference.spectrum)
    assert ours.rank == theirs.rank
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=1e-6)
    if np.isfinite(theirs.free_energy):
        assert ours.free_energy == pytest.approx(theirs.free_energy, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("engine", ENGINES)
def test_scale(engine, factor):
    X = tall(np.random.default_rng(3))
    plan = plan_for("evb")
    base = plan(decompose(X, plan=plan, engine="dense").spectrum)
    found = decompose(data_for(engine, X * factor), plan=plan, engine=engine, random_state=0)
    ours = plan(found.spectrum)
    assert ours.rank == base.rank == RANK
    assert ours.noise_variance == pytest.approx(base.noise_variance * factor**2, rel=1e-6)
    assert np.asarray(found.mean) == pytest.approx(X.mean(0) * factor, rel=1e-6, abs=1e-9 * factor)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2), (2, 40), (40, 2)])
@pytest.mark.parametrize("center", [True, False])
def test_tiny_matrices(engine, shape, center):
    X = np.random.default_rng(0).normal(size=shape)
    plan = plan_for("evb")
    found = decompose(data_for(engine, X), plan=plan, engine=engine, center=center, random_state=0)
    reference = decompose(X, plan=plan, engine="dense", center=center)
    ours, theirs = plan(found.spectrum), plan(reference.spectrum)
    assert ours.rank == theirs.rank
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=1e-9, abs=1e-25)
    assert found.right(ours.rank).shape == (ours.rank, shape[1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [0.0, 7.5])
def test_constant_data_have_rank_zero(engine, value):
    X = np.full((30, 6), value)
    plan = plan_for("evb")
    found = decompose(data_for(engine, X), plan=plan, engine=engine, random_state=0)
    assert plan(found.spectrum).rank == 0
    assert plan(found.spectrum).noise_variance < 1e-25


@pytest.mark.parametrize("engine", ["dense", "gram", "randomized", "streaming", "dask"])
def test_input_is_neither_changed_nor_required_to_be_writeable(engine):
    X = tall(np.random.default_rng(4))
    before = X.copy()
    X.flags.writeable = False
    for version in (X, np.asfortranarray(X)):
        decompose(data_for(engine, version), plan=solve, engine=engine, random_state=0)
    assert np.array_equal(X, before)


def test_a_threshold_near_rounding_takes_another_way():
    """With signals 10⁷ times the noise, a Gram matrix loses the noise and must not be used."""
    rng = np.random.default_rng(0)
    X = 1e7 * rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=(500, 40))
    found = decompose(X, plan=solve, engine="gram")
    assert found.engine == "dense"
    ours = solve(found.spectrum)
    assert ours.rank == 3
    assert ours.noise_variance == pytest.approx(1.0, rel=0.05)
    streamed = decompose(data_for("streaming", X), plan=solve)
    assert solve(streamed.spectrum).noise_variance == pytest.approx(ours.noise_variance, rel=1e-6)


def test_without_memory_for_another_way_it_says_so(monkeypatch):
    module = sys.modules["bayespca.engines.decomposing"]  # the function has the same name
    monkeypatch.setattr(module, "available_memory", lambda: 1e5)
    rng = np.random.default_rng(0)
    X = 1e7 * rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=(500, 40))
    found = decompose(X, plan=solve, engine="gram")
    assert found.engine == "gram"
    assert not found.status.exact
    assert "near-rounding" in found.status

"""One pass over blocks agrees with an SVD, for any shape, offset, scale and block size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pytest

from bayespca.arrays.parallel import one_blas_thread
from bayespca.engines import moments, streaming
from bayespca.engines.moments import RunningMoments, add, merge, start
from bayespca.engines.streaming import decompose, finish
from bayespca.sources import Source, open_source
from bayespca.spectrum import Spectrum, solve

PLAN = partial(solve, method="evb")
KNOWN_NOISE = partial(solve, method="evb", noise_variance=1e-22)


def low_rank(n: int, p: int, *, seed: int = 0, strengths: tuple[float, ...] = (6, 4, 3)):
    rng = np.random.default_rng(seed)
    k = min(len(strengths), n, p)
    signal = rng.normal(size=(n, k)) * strengths[:k] @ rng.normal(size=(k, p))
    return signal + rng.normal(size=(n, p))


def reference(X: np.ndarray, *, center: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors, in float64."""
    wide = X.astype(np.float64)
    _, gamma, right = np.linalg.svd(wide - wide.mean(axis=0) * center, full_matrices=False)
    n_samples = max(len(X) - 1, 1) if center else len(X)
    return gamma[: min(n_samples, X.shape[1])], right


def in_blocks(X: np.ndarray, size: int) -> list[np.ndarray]:
    return [X[i : i + size] for i in range(0, len(X), size)]


def gammas(spectrum: Spectrum) -> np.ndarray:
    return spectrum.singular_values * spectrum.scale


def assert_same(found, X: np.ndarray, *, center: bool = True, rtol: float = 1e-9, k: int = 3):
    gamma, right = reference(X, center=center)
    n, p = X.shape
    assert found.spectrum.shape == (p, max(n - 1, 1) if center else n)
    assert found.n_samples == n
    assert found.engine == "streaming"
    # Rounding errors of a scatter matrix are proportional to its largest eigenvalue.
    squares = gammas(found.spectrum) ** 2
    np.testing.assert_allclose(squares, gamma**2, rtol=rtol, atol=rtol * gamma[0] ** 2)
    expected_mean = X.mean(axis=0, dtype=np.float64) * center
    spread = gamma[0] / np.sqrt(n)
    np.testing.assert_allclose(found.mean, expected_mean, rtol=1e-7, atol=1e-6 * spread + 1e-300)
    total = float(np.sum((gamma / found.spectrum.scale) ** 2))
    assert found.spectrum.sum_of_squares == pytest.approx(total, rel=100 * rtol)
    k = min(k, int(np.count_nonzero(gamma > 1e-6 * gamma[0])))
    vectors = found.right(k)
    assert vectors.shape == (k, p)
    assert vectors.dtype == X.dtype
    overlap = np.abs(np.sum(vectors.astype(np.float64) * right[:k], axis=1))
    np.testing.assert_allclose(overlap, 1, atol=1e-5)


# --- agreement with an SVD ---------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize(
    "shape",
    [(500, 12), (2500, 3), (1500, 40), (13, 12), (12, 12), (11, 12), (9, 60), (2, 5), (30, 1)],
)
def test_any_shape_in_blocks_of_any_size(shape, size, dtype, center):
    X = (low_rank(*shape) + 0.5).astype(dtype)
    found = decompose(open_source(in_blocks(X, size)), center=center, plan=PLAN)
    assert found.status.exact
    assert_same(found, X, center=center, rtol=1e-6 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_tall_float32_array_of_many_parts(order):
    X = np.asarray(low_rank(40_000, 30), dtype=np.float32, order=order)
    found = decompose(open_source(X, block_bytes=2**20), center=True, plan=PLAN)
    assert_same(found, X, rtol=1e-6)
    assert PLAN(found.spectrum).rank == 3


@pytest.mark.parametrize("block_bytes", [1000, 2**20])
def test_float32_with_a_large_offset(block_bytes):
    """scikit-learn's default solver gives 8.98 for the top variance here; the truth is 0.01."""
    rng = np.random.default_rng(0)
    X = rng.normal(300, 0.1, (20_000, 50)).astype(np.float32)
    found = decompose(open_source(X, block_bytes=block_bytes), center=True, plan=PLAN)
    assert_same(found, X, rtol=1e-6, k=0)
    assert gammas(found.spectrum)[0] ** 2 / len(X) == pytest.approx(0.01, rel=0.2)
    assert found.status.exact


def test_offsets_that_drift_or_jump_do_not_cancel():
    X = low_rank(6000, 8).astype(np.float32)
    X[1:] += 1e4
    found = decompose(open_source(X, block_bytes=3200), center=True, plan=PLAN)
    assert_same(found, X, rtol=1e-7, k=0)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_rows_that_are_all_the_same(n, center):
    X = np.tile([1.0, -2.0, 3.0, 1e6], (n, 1))
    found = decompose(open_source(X), center=center, plan=PLAN)
    assert_same(found, X, center=center, k=0)
    if center:
        assert PLAN(found.spectrum).rank == 0


def test_constant_and_zero_columns():
    X = low_rank(3000, 10)
    X[:, 3], X[:, 7] = 5.0, 0.0
    found = decompose(open_source(in_blocks(X, 501)), center=True, plan=PLAN)
    plain = decompose(open_source(np.delete(X, [3, 7], axis=1)), center=True, plan=PLAN)
    assert found.spectrum.shape == (8, 2999)
    values = found.spectrum.singular_values, plain.spectrum.singular_values
    np.testing.assert_allclose(*values, rtol=1e-10)
    assert not found.right(3)[:, [3, 7]].any()
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-12)


def test_zero_vectors_may_be_asked_for():
    assert decompose(open_source(low_rank(50, 4)), center=True, plan=PLAN).right(0).shape == (0, 4)


# --- scale -------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape", [(3000, 10), (8, 20)])
@pytest.mark.parametrize("factor", [1e-150, 1e-90, 1e-20, 1e20, 1e90, 1e150])
def test_any_scale_in_float64(factor, shape, center):
    X = low_rank(*shape) + 3
    found = decompose(open_source(in_blocks(X * factor, 700)), center=center, plan=PLAN)
    gamma, _ = reference(X, center=center)
    np.testing.assert_allclose(gammas(found.spectrum) / factor, gamma, rtol=1e-9)
    np.testing.assert_allclose(found.mean / factor, X.mean(axis=0) * center, rtol=1e-9)
    solution, plain = PLAN(found.spectrum), solve(Spectrum(gamma, found.spectrum.shape))
    assert solution.rank == plain.rank
    assert solution.noise_variance / factor / factor == pytest.approx(plain.noise_variance)


@pytest.mark.parametrize("shape", [(9000, 10), (8, 20)])
@pytest.mark.parametrize("factor", [1e-37, 1e-30, 1e-12, 1e12, 1e30, 2e37])
def test_any_scale_in_float32(factor, shape):
    X = (low_rank(*shape, strengths=(0.5, 0.4)) * factor).astype(np.float32)
    found = decompose(open_source(in_blocks(X, 3000)), center=True, plan=PLAN)
    gamma, _ = reference(X)
    np.testing.assert_allclose(gammas(found.spectrum), gamma, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponents", [(0, -30, 30), (30, -30, 0), (-30, 0, 0), (-30, 30, -30)])
def test_blocks_of_different_scales(exponents, dtype):
    """The unit follows the largest numbers, and zeros do not set it."""
    blocks = [low_rank(2000, 5, seed=30 + e) * 10.0**e for e in exponents]
    blocks.insert(0, np.zeros((2000, 5)))
    X = np.concatenate(blocks).astype(dtype)
    found = decompose(open_source(in_blocks(X, 2000)), center=True, plan=PLAN)
    gamma, _ = reference(X)
    np.testing.assert_allclose(gammas(found.spectrum)[0], gamma[0], rtol=1e-6)


def test_numbers_whose_differences_overflow_are_refused():
    X = np.full((4000, 2), 1.7e308)
    X[::50] *= -1
    with pytest.raises(ValueError, match="overflow"):
        decompose(open_source(X), center=True, plan=PLAN)


def test_numbers_near_the_end_of_float32():
    X = np.where(np.random.default_rng(0).random((3000, 2)) < 0.5, -3e38, 3e38).astype(np.float32)
    found = decompose(open_source(X), center=True, plan=PLAN)
    np.testing.assert_allclose(gammas(found.spectrum), reference(X)[0], rtol=1e-6)


# --- moments: pure, and merged in any order ----------------------------------------------------


def scatter_of(X: np.ndarray) -> np.ndarray:
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    return centred.T @ centred


def moments_of(blocks: list[np.ndarray]) -> RunningMoments:
    return reduce(add, blocks, start(blocks[0].shape[1], blocks[0].dtype))


def contents(state: RunningMoments) -> list[bytes]:
    scatter = b"" if state.scatter is None else state.scatter.tobytes()
    return [scatter, state.mean.tobytes(), *(rows.tobytes() for rows in state.rows)]


@pytest.mark.parametrize("sizes", [(5, 8), (2000, 1), (1, 3000), (1500, 1500), (600, 600)])
def test_adding_leaves_the_old_moments_alone(sizes):
    X = low_rank(sum(sizes), 4)
    old = moments_of([X[: sizes[0]].copy()])
    before = contents(old)
    block = X[sizes[0] :].copy()
    new = add(old, block)
    merged = merge(old, new)
    block[:] = np.nan
    assert contents(old) == before
    assert new.n_samples == sum(sizes)
    assert merged.n_samples == sum(sizes) + sizes[0]
    assert_same(finish(new, center=True, plan=PLAN), X)


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_the_number_of_threads_changes_nothing(monkeypatch, offset):
    X = (low_rank(60_000, 20) + offset).astype(np.float32)
    found = {}
    for n_workers in (1, 2, 5):
        monkeypatch.setattr(moments, "_n_workers", lambda *_, n=n_workers: n)
        found[n_workers] = contents(moments_of(in_blocks(X, 25_000)))
    assert found[1] == found[2] == found[5]


def test_workers_are_as_many_as_blas_may_use():
    with one_blas_thread():
        assert moments._n_workers(20, 8) == 1
    assert moments._n_workers(5000, 8) == 1
    assert 1 <= moments._n_workers(20, 3) <= 3


def test_moments_are_read_only():
    state = moments_of([low_rank(2000, 4), low_rank(3, 4)])
    for array in (state.scatter, state.mean, *state.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_a_failure_half_way_leaves_the_old_moments_usable(monkeypatch):
    X = low_rank(9000, 4)
    old = moments_of([X[:3000]])
    before = contents(old)
    calls = iter(range(100))
    original = moments.Accumulator._multiply

    def failing(self, *arguments):
        if next(calls) == 1:
            raise RuntimeError("half-way")
        return original(self, *arguments)

    monkeypatch.setattr(moments, "PART_ROWS", (512, 1000))
    monkeypatch.setattr(moments.Accumulator, "_multiply", failing)
    with pytest.raises(RuntimeError, match="half-way"):
        add(old, X[3000:])
    assert contents(old) == before
    assert_same(finish(add(old, X[3000:]), center=True, plan=PLAN), X)


@pytest.mark.parametrize("cuts", [(1, 3), (1200, 1300), (10, 4000), (2500, 2600), (1, 4999)])
def test_merging_in_any_order(cuts):
    X = low_rank(5000, 6) + 100
    parts = [moments_of([part]) for part in np.split(X, cuts)]
    a, b, c = parts
    for merged in (
        merge(merge(a, b), c),
        merge(a, merge(b, c)),
        merge(c, merge(b, a)),
        merge(start(6), merge(merge(c, a), b)),
    ):
        assert merged.n_samples == len(X)
        assert_same(finish(merged, center=True, plan=PLAN), X)


def test_merging_moments_in_different_units():
    tiny, large = low_rank(2000, 3) * 1e-140, low_rank(2000, 3, seed=1) * 1e140
    still = np.full((2000, 3), 2.0)
    for blocks in ([tiny, large], [large, tiny], [still, tiny], [tiny, still]):
        merged = merge(*(moments_of([block]) for block in blocks))
        X = np.concatenate(blocks)
        found = gammas(finish(merged, center=True, plan=PLAN).spectrum)
        assert found[0] == pytest.approx(reference(X)[0][0], rel=1e-9)
    zeros = np.zeros((2000, 3))
    for blocks in ([zeros, tiny], [tiny, zeros]):
        merged = merge(*(moments_of([block]) for block in blocks))
        X = np.concatenate(blocks)
        found = gammas(finish(merged, center=True, plan=PLAN).spectrum)
        np.testing.assert_allclose(found, reference(X)[0], rtol=1e-9)


def test_merging_different_columns_is_refused():
    with pytest.raises(ValueError, match="3 and of 4 columns"):
        merge(start(3), start(4))


def test_merging_keeps_the_lower_precision():
    merged = merge(start(3, np.dtype("f4")), start(3))
    assert merged.precision == np.float32
    assert merged.dtype == np.float64


def test_rows_become_a_scatter_matrix_only_when_they_outnumber_the_columns(monkeypatch):
    monkeypatch.setattr(moments, "WAITING_ROWS", 1)
    X = low_rank(60, 40)
    state = moments_of(in_blocks(X[:40], 7))
    assert state.scatter is None
    assert_same(finish(state, center=True, plan=PLAN), X[:40])
    state = add(state, X[40:])
    assert not state.rows
    np.testing.assert_allclose(state.scatter, scatter_of(X), rtol=1e-9, atol=1e-9)


def test_no_square_of_the_columns_when_they_outnumber_the_rows():
    """A square matrix of these columns would take 80 GB."""
    X = low_rank(20, 100_000)
    found = decompose(open_source(in_blocks(X, 6)), center=True, plan=PLAN)
    assert_same(found, X)


def test_nothing_to_finish():
    with pytest.raises(ValueError, match="no rows"):
        finish(start(3), center=True, plan=PLAN)


# --- precision ---------------------------------------------------------------------------------


def stiff(n: int, p: int, condition: float, seed: int = 0) -> np.ndarray:
    """A matrix with one strong direction; the others are smaller by `condition`."""
    rng = np.random.default_rng(seed)
    values = np.r_[1.0, np.linspace(2, 1, p - 1) / condition]
    left, _ = np.linalg.qr(rng.normal(size=(n, p)))
    right, _ = np.linalg.qr(rng.normal(size=(p, p)))
    return (left - left.mean(axis=0)) * values @ right


class Counting:
    """A list of blocks that counts how often it is read."""

    def __init__(self, blocks: list[np.ndarray]) -> None:
        self.blocks, self.n_read = blocks, 0

    def source(self, *, rereadable: bool = True) -> Source:
        return replace(open_source(self.blocks), rereadable=rereadable, blocks=self.read)

    def read(self) -> Iterator[np.ndarray]:
        self.n_read += 1
        return iter(self.blocks)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [300, 5000])
def test_near_rounding_a_second_pass_takes_the_qr_way(n, center):
    X = stiff(n, 20, 1e10)
    blocks = Counting(in_blocks(X, 313))
    found = decompose(blocks.source(), center=center, plan=KNOWN_NOISE)
    assert blocks.n_read == 2
    assert found.status.exact
    gamma, right = reference(X, center=center)
    np.testing.assert_allclose(gammas(found.spectrum), gamma, rtol=1e-5)
    np.testing.assert_allclose(found.right(20) @ found.right(20).T, np.eye(20), atol=1e-12)
    assert abs(found.right(1)[0] @ right[0]) == pytest.approx(1)
    # The Gram matrix alone is wrong by far more than that.
    once = finish(moments_of(blocks.blocks), center=center, plan=KNOWN_NOISE)
    assert not once.status.exact
    assert np.abs(gammas(once.spectrum) / gamma - 1).max() > 0.1


def test_near_rounding_data_that_cannot_be_read_again_say_so():
    X = stiff(2000, 20, 1e10)
    blocks = Counting(in_blocks(X, 313))
    found = decompose(blocks.source(rereadable=False), center=True, plan=KNOWN_NOISE)
    assert blocks.n_read == 1
    assert "near-rounding" in found.status
    assert "read twice" in str(found.status)


def test_few_rows_need_no_second_pass_however_stiff():
    X = stiff(40, 12, 1e10).T.copy()
    blocks = Counting(in_blocks(X, 5))
    found = decompose(blocks.source(), center=False, plan=KNOWN_NOISE)
    assert blocks.n_read == 1
    np.testing.assert_allclose(gammas(found.spectrum), reference(X, center=False)[0], rtol=1e-4)


@pytest.mark.parametrize(("condition", "n_read"), [(10.0, 1), (1e4, 2)])
def test_float32_is_multiplied_in_float64_where_it_matters(condition, n_read):
    X = (stiff(5000, 20, condition) * 1e3).astype(np.float32)
    blocks = Counting(in_blocks(X, 313))
    found = decompose(blocks.source(), center=True, plan=partial(solve, method="evb"))
    assert blocks.n_read == n_read
    np.testing.assert_allclose(gammas(found.spectrum), reference(X)[0], rtol=1e-5)


def test_float32_that_cannot_be_read_again_is_multiplied_in_float64_at_once():
    X = (stiff(5000, 20, 1e4) * 1e3).astype(np.float32)
    found = decompose(open_source(iter(in_blocks(X, 313))), center=True, plan=PLAN)
    assert found.status.exact
    np.testing.assert_allclose(gammas(found.spectrum), reference(X)[0], rtol=1e-6)


def test_a_scale_survives_the_qr_way():
    X = stiff(300, 6, 1e10)
    plan = partial(solve, method="evb", noise_variance=1e-222)
    found = decompose(open_source(X * 1e-100), center=True, plan=plan)
    assert found.status.exact
    np.testing.assert_allclose(gammas(found.spectrum) * 1e100, reference(X)[0], rtol=1e-5)


def test_a_fixed_rank_has_no_threshold_to_miss():
    X = low_rank(3000, 10)
    blocks = Counting(in_blocks(X, 500))
    found = decompose(blocks.source(), center=True, plan=partial(solve, method="ml", max_rank=3))
    assert blocks.n_read == 1
    assert_same(found, X)


def test_data_that_change_between_two_passes_are_refused():
    X = stiff(2000, 20, 1e10)
    sizes = iter([2000, 1900])
    source = replace(open_source(X), blocks=lambda: iter([X[: next(sizes)]]))
    with pytest.raises(ValueError, match="2000 rows on the first pass and 1900 on the second"):
        decompose(source, center=True, plan=KNOWN_NOISE)


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_too_many_columns_for_memory(known):
    X = np.zeros((1200, 1100))
    source = replace(open_source(X), n_samples=1200 if known else None)
    with pytest.raises(ValueError, match=r"1100 columns .* limit is 0\.005 GB.* memory_limit"):
        decompose(source, center=True, plan=PLAN, memory_limit=5e6)


# VmHWM is the peak of this process alone; `resource` may report that of its parent.
READ = """
import re, sys
from pathlib import Path
import numpy as np
from bayespca.engines import streaming
from bayespca.sources.blocks import open_source
from bayespca.spectrum import solve

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

X = np.load(sys.argv[1], mmap_mode="r") if sys.argv[2] == "map" else sys.argv[1]
streaming.decompose(open_source(np.eye(2000, 100)), center=True, plan=solve)
before = peak()
found = streaming.decompose(open_source(X), center=True, plan=solve)
print(found.n_samples, peak() - before)
"""


def write_large(folder: Path, order: str) -> Path:
    path, shape = folder / "large.npy", (500_000, 100)
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape, fortran_order=order == "F")
    block = np.random.default_rng(0).standard_normal((50_000, 100), np.float32)
    for i in range(0, len(array), len(block)):
        array[i : i + len(block)] = block
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak of memory")
@pytest.mark.parametrize(("how", "order"), [("map", "F"), ("map", "C"), ("path", "C")])
def test_a_large_file_takes_little_memory(tmp_path, how, order):
    """Resident memory, mapped pages included, grows by far less than the 200 MB of the file."""
    command = [sys.executable, "-c", READ, str(write_large(tmp_path, order)), how]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread)
    n_samples, kilobytes = (int(word) for word in done.stdout.split())
    assert n_samples == 500_000
    assert kilobytes < 60_000


def test_constant_columns_are_set_aside_in_the_second_pass_too():
    rng = np.random.default_rng(0)
    X = 1e7 * rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=(500, 40))
    with_constant = np.insert(X, 7, 2.5, axis=1)
    plain = streaming.decompose(open_source(X), center=True, plan=solve)
    found = streaming.decompose(open_source(with_constant), center=True, plan=solve)
    assert solve(found.spectrum).rank == 3
    assert found.spectrum.singular_values == pytest.approx(plain.spectrum.singular_values)
    assert not found.right(3)[:, 7].any()
    assert found.mean[7] == pytest.approx(2.5)

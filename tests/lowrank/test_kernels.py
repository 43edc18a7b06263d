"""The compiled kernel agrees with NumPy, and rows are grouped by their pattern of holes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.arrays import parallel
from bayespca.arrays.parallel import one_blas_thread
from bayespca.lowrank import holes as data_module
from bayespca.lowrank import kernels
from bayespca.lowrank import patterns as patterns_module
from bayespca.lowrank.compiled import by_loops
from bayespca.lowrank.observing import observed, sorted_by_pattern
from bayespca.lowrank.patterns import _hashes, patterns_of
from bayespca.lowrank.rows import Columns, latent, misfits_of_rows, sums_over_rows

from .patterns import SHAPES, fresh, one_by_one, own_rows, problem


@pytest.mark.parametrize("kernel", [kernels.by_numpy, by_loops])
@pytest.mark.parametrize(("n", "m", "H"), SHAPES)
def test_kernels_compute_what_is_defined(kernel, n, m, H):
    given = problem(n, m, H)
    expected = one_by_one(*given)
    for found, wanted in zip(kernel(*fresh(given)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", [kernels.by_numpy, by_loops])
@pytest.mark.parametrize(("n", "m", "H"), SHAPES)
def test_rows_may_count_differently(kernel, n, m, H):
    given = (*problem(n, m, H), own_rows(n, m))
    for found, wanted in zip(kernel(*fresh(given)), one_by_one(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_loops_are_as_accurate_as_cholesky():
    """Precisions with a condition number of 10¹⁰, as rows with few cells and little noise have."""
    gram, pull, starts, share, _, s2 = problem(200, 200, 10)
    gram *= (np.random.default_rng(1).random(200) < 0.5) + 1e-9
    given = (gram, pull, starts, share, np.full(10, 1e-9), s2)
    loops, numpy = by_loops(*fresh(given)), kernels.by_numpy(*fresh(given))
    exact = one_by_one(*given)
    for mine, other, truth in zip(loops, numpy, exact, strict=True):
        size = np.abs(truth).max()
        assert np.abs(mine - truth).max() <= 10 * np.abs(other - truth).max() + 1e-13 * size


@pytest.mark.parametrize("lanes", [1, 8, 13])
def test_how_patterns_are_grouped_changes_nothing(monkeypatch, lanes):
    given = problem(500, 150, 8)
    together = by_loops(*fresh(given))
    monkeypatch.setattr("bayespca.lowrank.compiled._lanes", lambda H: lanes)
    for found, expected in zip(by_loops(*fresh(given)), together, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def with_holes(n, p, share=0.3, alike=1, seed=0):
    """A matrix in which `alike` rows share each pattern of holes."""
    rng = np.random.default_rng(seed)
    holes = np.repeat(rng.random((-(-n // alike), p)) < share, alike, axis=0)[:n]
    return np.where(holes[rng.permutation(n)], np.nan, rng.normal(size=(n, p)) + 3)


def some_columns(p, H, *, integrated=True, seed=0):
    rng = np.random.default_rng(seed)
    factors = 0.1 * rng.normal(size=(p, H + 1, H + 1))
    b_cov = factors @ np.swapaxes(factors, 1, 2)
    prior = rng.uniform(0.5, 2, H)
    return Columns(rng.normal(size=(p, H + 1)), b_cov, prior, 0.4, integrated)


def parts(sums):
    return sums.second, sums.cross, sums.everything, sums.log_det, sums.left


@pytest.mark.parametrize("many", [0.0, np.inf])
def test_the_number_of_threads_changes_nothing(monkeypatch, many):
    """Results agree bit for bit, with either kernel."""
    monkeypatch.setattr(kernels, "MANY", many)
    data = observed(with_holes(4000, 24), center=True, scale=False)
    columns = some_columns(24, 4)
    assert len(data.edges()) > 6
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(parallel, "blas_threads", lambda threads=threads: threads)
        with one_blas_thread():
            found.append(parts(sums_over_rows(data, columns, share=0.9)))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("many", [0.0, np.inf])
@pytest.mark.parametrize("integrated", [True, False])
@pytest.mark.parametrize("alike", [1, 3, 100])
def test_sums_are_those_over_all_rows(monkeypatch, many, integrated, alike):
    """Sums in small blocks, which cut through patterns, agree with einsum over all cells."""
    monkeypatch.setattr(kernels, "MANY", many)
    monkeypatch.setattr(data_module, "BLOCK", 7)
    monkeypatch.setattr(data_module, "ROWS", 40)
    data = observed(with_holes(200, 9, alike=alike), center=True, scale=False)
    columns = some_columns(9, 3, integrated=integrated)
    root = np.linspace(0.5, 2, 9)
    sums = sums_over_rows(data, columns, share=0.9, root=root)
    values, mask = data.values / root, data.mask.astype(float)
    second = columns.second
    gram = np.einsum("nj,jhk->nhk", mask, second[:, :3, :3]) + 0.4 * np.diag(1 / columns.prior_a)
    cov = 0.4 * np.linalg.inv(gram)
    pull = values @ columns.b[:, :3] - mask @ second[:, :3, 3]
    a = np.c_[np.einsum("nhk,nk->nh", cov, pull) / 0.4, np.ones(200)]
    squares = a[:, :, None] * a[:, None, :]
    squares[:, :3, :3] += 0.9 * integrated * cov
    expected = (
        np.einsum("nj,nhk->jhk", mask, squares),
        values.T @ a,
        squares.sum(axis=0),
        0.9 * integrated * np.linalg.slogdet(cov)[1].sum(),
        (mask * (values - a @ columns.b.T) ** 2).sum(axis=0),
    )
    for found, wanted in zip(parts(sums), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    means, _ = latent(data, columns)
    plain = data.values @ columns.b[:, :3] - mask @ second[:, :3, 3]
    np.testing.assert_allclose(means, np.einsum("nhk,nk->nh", cov, plain) / 0.4, atol=1e-10)


@pytest.mark.parametrize("many", [0.0, np.inf])
@pytest.mark.parametrize("alike", [1, 100])
def test_misfits_are_exact_where_columns_have_nearly_no_noise(monkeypatch, many, alike):
    """Squares are 10⁷ times the misfit, and precisions differ by as much."""
    monkeypatch.setattr(kernels, "MANY", many)
    p, H, s2 = 9, 3, 0.4
    columns = some_columns(p, H)
    columns = replace(columns, b_cov=np.zeros_like(columns.b_cov))
    root = np.where(np.arange(p) < 2, 3e-4, 1.0)
    columns.b[:] /= root[:, None]
    rng = np.random.default_rng(1)
    holes = np.isnan(with_holes(200, p, alike=alike))
    cells = rng.normal(size=(200, H)) @ (columns.b[:, :H] * root[:, None]).T
    cells += columns.b[:, H] * root + root * rng.normal(size=(200, p))
    data = observed(np.where(holes, np.nan, cells), center=False, scale=False)
    columns.b[:] /= data.unit[:, None]
    found = misfits_of_rows(data, columns, root=root)
    ridge = np.diag(np.sqrt(s2 / columns.prior_a))
    for i, there in enumerate(data.mask):
        b, x = columns.b[there], data.values[i, there] / root[there]
        stacked, target = np.vstack([b[:, :H], ridge]), np.append(x - b[:, H], np.zeros(H))
        a = np.linalg.lstsq(stacked, target, rcond=None)[0]
        misfit = float(((target - stacked @ a) ** 2).sum()) / s2
        assert found.squares[i] == pytest.approx(misfit, rel=1e-5)


def test_a_fit_is_the_same_either_way(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 10)) + rng.normal(size=(200, 10))
    Y = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    plain = BayesianPCA().fit(Y)
    used = []
    monkeypatch.setattr(kernels, "MANY", 0.0)
    monkeypatch.setattr(
        "bayespca.lowrank.compiled.by_loops", lambda *given: used.append(1) or by_loops(*given)
    )
    compiled = BayesianPCA().fit(Y)
    assert used
    assert compiled.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-10)
    np.testing.assert_allclose(compiled.impute(Y), plain.impute(Y), atol=1e-8)


def test_numba_is_imported_for_much_work_alone():
    code = (
        "import sys, numpy as np\n"
        "from bayespca import BayesianPCA\n"
        "from bayespca.lowrank import kernels\n"
        "X = np.random.default_rng(0).normal(size=(30, 4)); X[0, 0] = np.nan\n"
        "BayesianPCA().fit(X).impute(X)\n"
        "assert 'numba' not in sys.modules\n"
        "kernels.kernel_for(10**5, 10**5, 20)\n"
        "assert 'numba' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- grouping rows by pattern ------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 7, 8, 64, 65, 300])
def test_patterns_are_the_different_rows(p):
    rng = np.random.default_rng(p)
    few = rng.random((12, p)) < 0.5
    seen = few[rng.integers(0, 12, 200)]
    first, which = patterns_of(seen)
    np.testing.assert_array_equal(seen[first][which], seen)
    assert len(first) == len(np.unique(seen, axis=0))


def test_hashes_that_collide_do_no_harm(monkeypatch):
    seen = np.random.default_rng(0).random((50, 9)) < 0.5
    assert len(np.unique(_hashes(np.packbits(seen, axis=1)))) == len(np.unique(seen, axis=0))
    monkeypatch.setattr(patterns_module, "_hashes", lambda bits: np.zeros(len(bits)))
    first, which = patterns_of(seen)
    np.testing.assert_array_equal(seen[first][which], seen)
    assert len(first) == len(np.unique(seen, axis=0))


@pytest.mark.parametrize("alike", [1, 4])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_are_sorted_by_pattern(alike, dtype):
    Y = with_holes(60, 8, alike=alike).astype(dtype)
    data = observed(Y, center=True, scale=True)
    seen = ~np.isnan(Y)
    assert data.values.dtype == np.float64
    assert len(data.patterns) == len(np.unique(seen, axis=0))
    np.testing.assert_array_equal(data.mask, seen[data.order])
    np.testing.assert_array_equal(data.in_order(data.mask), seen)
    for m in range(len(data.patterns)):
        rows = slice(data.starts[m], data.starts[m + 1])
        assert (data.mask[rows] == data.patterns[m]).all()
    again = data.in_order(data.values) * data.unit + data.location
    np.testing.assert_allclose(again[seen], Y[seen], rtol=1e-12)
    assert not data.values[~data.mask].any()
    np.testing.assert_allclose(data.location, np.nanmean(Y.astype(float), axis=0))
    np.testing.assert_allclose(data.unit, np.nanstd(Y.astype(float), axis=0, ddof=1))
    np.testing.assert_allclose(data.column_counts, seen.sum(axis=0))
    np.testing.assert_allclose(data.totals, data.values.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(data.squares, (data.values**2).sum(axis=0))


def test_values_that_are_given_are_sorted_too():
    Y = with_holes(60, 8, alike=4)
    data = observed(Y, center=True, scale=False)
    seen = ~np.isnan(Y)
    values = np.where(seen, (Y - data.location) / data.unit, 0)
    other = sorted_by_pattern(values, seen, data.location, data.unit)
    np.testing.assert_allclose(other.values, data.values, atol=1e-15)
    np.testing.assert_array_equal(other.patterns, data.patterns)


@pytest.mark.parametrize("alike", [1, 3, 50])
def test_blocks_are_all_rows_and_few_patterns(monkeypatch, alike):
    monkeypatch.setattr(data_module, "BLOCK", 5)
    monkeypatch.setattr(data_module, "ROWS", 20)
    data = observed(with_holes(200, 30, alike=alike), center=True, scale=False)
    blocks = list(data.blocks())
    assert len(blocks) == len(data.edges())
    np.testing.assert_array_equal(np.concatenate([b.values for b in blocks]), data.values)
    mask = np.concatenate([b.mask[b.pattern] for b in blocks])
    np.testing.assert_array_equal(mask > 0, data.mask)
    for block in blocks:
        assert len(block.mask) <= 5
        assert len(block.values) <= 20
        assert (block.shares > 0).all()
        np.testing.assert_array_equal(block.seen, data.patterns[block.which])


def test_sums_over_the_mask():
    data = observed(with_holes(60, 8, alike=4), center=True, scale=False)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=8), rng.normal(size=len(data.patterns))
    np.testing.assert_allclose(data.over_columns(x), data.patterns @ x)
    np.testing.assert_allclose(data.over_patterns(w), w @ data.patterns)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("size", [1e-170, 1e154])
def test_any_size_of_numbers(size, scale):
    Y = with_holes(50, 5)
    plain = observed(Y, center=True, scale=scale)
    other = observed(Y * size, center=True, scale=scale)
    np.testing.assert_allclose(other.values, plain.values, atol=1e-12)
    np.testing.assert_allclose(other.unit, plain.unit * size)


@pytest.mark.parametrize("scale", [False, True])
def test_constant_columns_are_zero_and_no_others(scale):
    """The computed mean of equal numbers is not always that number."""
    Y = with_holes(300, 4)
    holes = np.isnan(Y)
    Y[:, 1] = np.where(holes[:, 1], np.nan, 0.1)
    Y[:, 2] = np.where(holes[:, 2], np.nan, 1.0)
    Y[np.flatnonzero(~holes[:, 2])[0], 2] += 1e-14
    assert np.nanmean(Y[:, 1]) != 0.1
    data = observed(Y, center=True, scale=scale)
    assert not data.values[:, 1].any()
    assert data.values[:, 2].any()
    everything = (Y - np.nanmean(Y, axis=0)).ravel()
    assert data.unit[1] == pytest.approx(np.sqrt(np.nanmean(everything**2)))


def test_the_training_data_are_left_as_they_are():
    Y = with_holes(50, 5, alike=2)
    before = Y.copy()
    Y.flags.writeable = False
    observed(Y, center=True, scale=True)
    np.testing.assert_array_equal(Y, before)

"""CUDA kernels agree with NumPy: compiled for the CPU, where their threads take turns, and on a
GPU if there is one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.arrays import cuda, parallel, to_numpy
from bayespca.arrays import namespaces as arrays
from bayespca.engines.operators import dense_operator
from bayespca.engines.randomized import krylov, space
from bayespca.engines.randomized import problem as randomized_problem
from bayespca.lowrank import kernels, rows
from bayespca.spectrum import solve
from lowrank.patterns import SHAPES, fresh, one_by_one, own_rows, problem

HERE = Path(__file__).parent
KERNELS = Path(cuda.__file__).with_name("kernels.cu")


class Index(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


def gpu():
    """Function that copies arrays to the GPU and keeps their memory order; None without a GPU."""
    try:
        import cupy

        cupy.zeros(1)
    except Exception:  # without a driver CuPy raises its own errors
        return None
    return lambda a: cupy.asarray(a, order="K")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Function that compiles the kernels for the CPU, once for each number of rows."""
    folder = tmp_path_factory.mktemp("kernels")
    return cache(lambda rows: compiled(rows, folder / f"kernels{rows}.so"))


def compiled(rows, to):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no compiler for C++")
    names = [f'-DKERNELS="{KERNELS}"', f"-DROWS={rows}"]
    # Fortified builds take jumps between stacks for errors.
    options = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", *names]
    source = str(HERE / "cuda_on_a_cpu.cpp")
    done = subprocess.run(
        [compiler, *options, "-Wno-unknown-pragmas", source, "-o", str(to)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ucontext" in done.stderr and "No such file" in done.stderr:
        pytest.skip("the system cannot switch stacks (ucontext.h)")
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(to))


@pytest.fixture(params=["cpu", "gpu"])
def placed(request, monkeypatch):
    """Function that copies arrays to where the kernels run."""
    if request.param == "gpu":
        return gpu() or pytest.skip("there is no GPU, or no CuPy")
    library = request.getfixturevalue("library")
    monkeypatch.setattr(cuda, "_launch", launcher(library))
    monkeypatch.setattr(cuda, "is_served", lambda a: True)
    monkeypatch.setattr(cuda, "_most_shared_bytes", lambda: 227 << 10)
    return lambda a: np.array(a, order="K")


def launcher(library):
    """Replacement of `cuda._launch` that runs the kernels on the CPU."""

    def launch(name, grid, block, arguments, *, like, shared=0, rows=0):
        assert shared <= 8 << 16
        given = [_for_c(argument) for argument in arguments]
        uneven = getattr(library(rows), f"run_{name}")(Index(*grid), Index(*block), *given)
        assert not uneven, "some threads of a block do not reach a barrier"

    return launch


def _for_c(argument):
    if argument is None:
        return None
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data_as(ctypes.c_void_p)
    if hasattr(argument, "data_ptr"):
        return ctypes.c_void_p(argument.data_ptr())
    of = {np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.float64: ctypes.c_double}
    return of[type(argument)](argument.item())


# --- rows --------------------------------------------------------------------------------------


def agrees(found, wanted):
    for name, mine, other in zip(found._fields, found, wanted, strict=True):
        if name == "cov":
            assert mine is None
        else:
            np.testing.assert_allclose(to_numpy(mine), other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n", "m", "H"), [shape for shape in SHAPES if shape[2]])
def test_rows_are_updated_as_defined(placed, n, m, H):
    gram, pull, *rest = problem(n, m, H)
    found = kernels.by_device(placed(np.asfortranarray(gram)), placed(pull), *rest)
    agrees(found, one_by_one(gram, pull, *rest))


@pytest.mark.parametrize(("n", "m", "H"), [(40, 40, 5), (60, 7, 3), (9, 8, 33)])
def test_rows_may_count_differently(placed, n, m, H):
    (gram, pull, *rest), own = problem(n, m, H), own_rows(n, m)
    there = kernels.OwnRows(*map(placed, own))
    found = kernels.by_device(placed(np.asfortranarray(gram)), placed(pull), *rest, there)
    agrees(found, one_by_one(gram, pull, *rest, own))


def test_packed_matrices_between_other_numbers(placed):
    """Results overwrite the packed matrices and leave the numbers beside them alone."""
    gram, pull, starts, share, ridge, s2 = problem(30, 30, 5)
    both = placed(np.concatenate([gram.T, np.full((30, 7), 3.0)], axis=1))
    expected = one_by_one(gram, pull, starts, share, ridge, s2)
    agrees(kernels.by_device(both[:, :15].T, placed(pull), starts, share, ridge, s2), expected)
    kernels.given_gram(both[:, :15].T, placed(pull), starts, ridge, s2)
    np.testing.assert_allclose(to_numpy(both)[:, :15], expected[1].T, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(to_numpy(both)[:, 15:], 3.0)


def test_rows_that_do_not_lie_in_one_piece(placed):
    gram, pull, *rest = problem(30, 20, 5)
    wide, tall = np.tile(pull, 2), np.asfortranarray(pull)
    for given in (placed(wide)[:, :5], placed(tall)):
        agrees(kernels.by_device(placed(gram), given, *rest), one_by_one(gram, pull, *rest))


@pytest.mark.parametrize("order", ["C", "F"])
def test_covariances_alone(placed, order):
    gram, pull, starts, _, ridge, s2 = problem(40, 20, 6)
    a, cov, log_dets = kernels.given_gram(
        placed(np.asarray(gram, order=order)), placed(pull), starts, ridge, s2
    )
    wanted = one_by_one(gram, pull, starts, 0.0, ridge, s2)
    np.testing.assert_allclose(to_numpy(a), wanted[0], rtol=1e-9, atol=1e-11)
    upper = to_numpy(cov)[:, *np.triu_indices(6)]
    np.testing.assert_allclose(upper.T, wanted[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(to_numpy(log_dets), wanted[3], rtol=1e-9)


def test_it_is_as_accurate_as_cholesky(placed, monkeypatch):
    """Precision matrices of rows with few cells and little noise: condition number 10¹⁰."""
    gram, pull, starts, share, _, s2 = problem(200, 200, 10)
    gram *= (np.random.default_rng(1).random(200) < 0.5) + 1e-9
    given = (gram, pull, starts, share, np.full(10, 1e-9), s2)
    mine = kernels.by_device(placed(gram), placed(pull), *given[2:])
    monkeypatch.setattr(kernels, "has_device_kernel", lambda *_: False)
    other, truth = kernels.by_numpy(*fresh(given)), one_by_one(*given)
    for a, b, exact in zip(mine, other, truth, strict=True):
        if a is None:
            continue
        assert (
            np.abs(to_numpy(a) - exact).max()
            <= 10 * np.abs(b - exact).max() + 1e-13 * np.abs(exact).max()
        )


@pytest.mark.parametrize("threads", [64, 128, 512])
def test_blocks_of_any_shape(placed, monkeypatch, threads):
    monkeypatch.setattr(cuda, "THREADS", threads)
    gram, pull, *rest = problem(12, 9, 40)
    agrees(kernels.by_device(placed(gram), placed(pull), *rest), one_by_one(gram, pull, *rest))


def test_what_does_not_fit_is_left_to_others(placed):
    assert cuda.fits(100)
    assert not cuda.fits(0)
    assert not cuda.fits(300)
    like = placed(np.zeros((2, 2)))
    assert kernels.has_device_kernel(like, 100, 100, 5)
    assert not kernels.has_device_kernel(like, 100, 100, 300)
    assert not kernels.has_device_kernel(like, 10_000, 10, 5)


# --- sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "p"), [(1000, 7), (3, 300), (1, 1), (8, 1), (513, 64)])
def test_sums_of_columns(placed, n, p, dtype):
    X = (np.random.default_rng(0).normal(size=(n, p)) + 30).astype(dtype)
    shift = np.linspace(29, 31, p)
    for less in (None, shift):
        given = None if less is None else placed(less)
        totals, squares = cuda.sums_and_squares(placed(X), given)
        rest = X.astype(np.float64) - (0 if less is None else less)
        np.testing.assert_allclose(to_numpy(totals), rest.sum(axis=0), rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(float(squares), (rest**2).sum(), rtol=1e-12)
    alone = to_numpy(cuda.column_sums(placed(X)))
    np.testing.assert_allclose(alone, X.sum(axis=0, dtype=np.float64), rtol=1e-12)


def test_a_part_of_a_matrix(placed):
    X = placed(np.random.default_rng(0).normal(size=(50, 20)))
    totals = cuda.column_sums(X[:, 3:9])
    np.testing.assert_allclose(to_numpy(totals), to_numpy(X)[:, 3:9].sum(axis=0), rtol=1e-12)
    assert cuda.column_sums(X.T) is None
    assert cuda.column_sums(placed(np.ones((3, 3), np.float16))) is None
    assert cuda.sums_and_squares(X[:, ::2]) is None


@pytest.mark.parametrize(("m", "p"), [(40, 7), (3, 100), (1, 1), (17, 32)])
def test_sums_over_what_is_there(placed, m, p):
    rng = np.random.default_rng(0)
    mask, x = rng.random((m, p)) < 0.5, rng.normal(size=p)
    found = cuda.sums_where(placed(mask), placed(x))
    np.testing.assert_allclose(to_numpy(found), mask @ x, rtol=1e-12, atol=1e-12)
    assert p == 1 or cuda.sums_where(placed(mask)[:, 1:], placed(x[1:])) is None


# --- on a GPU ----------------------------------------------------------------------------------


@pytest.fixture(params=["cupy", "torch"])
def there(request):
    placed = gpu() or pytest.skip("there is no GPU, or no CuPy")
    if request.param == "cupy":
        return placed
    torch = pytest.importorskip("torch")
    return lambda a: torch.asarray(a, device="cuda")


def test_arrays_on_a_gpu_are_served(there):
    assert cuda.is_served(there(np.zeros((2, 2))))
    assert not cuda.is_served(np.zeros((2, 2)))


@pytest.mark.parametrize("n", [3, 31, 60, 70])
@pytest.mark.parametrize("kind", [float, complex])
def test_many_small_matrices(there, n, kind):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, n, 2 * n)).astype(kind)
    if kind is complex:
        A += 1j * rng.normal(size=A.shape)
    A = A @ np.conj(A.transpose(0, 2, 1))
    values, vectors = map(to_numpy, cuda.eigh(there(A)))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(A @ vectors, vectors * values[:, None, :], atol=1e-9)


@pytest.fixture(params=["cupy", "torch", "torch on a cpu"])
def away(request, monkeypatch):
    """Function that copies arrays to a GPU, or to torch's CPU treated as one."""
    if request.param == "cupy":
        return gpu() or pytest.skip("there is no GPU, or no CuPy")
    torch = pytest.importorskip("torch")
    if request.param == "torch":
        if gpu() is None:
            pytest.skip("there is no GPU, or no CuPy")
        return partial(torch.asarray, device="cuda")
    library = request.getfixturevalue("library")
    monkeypatch.setattr(cuda, "_launch", launcher(library))
    monkeypatch.setattr(cuda, "is_served", torch.is_tensor)
    monkeypatch.setattr(cuda, "_most_shared_bytes", lambda: 227 << 10)
    monkeypatch.setattr(rows, "_shared", lambda data: data)
    for module in (arrays, krylov, randomized_problem, space, parallel):
        monkeypatch.setattr(module, "on_accelerator", torch.is_tensor)
    return torch.asarray


FITS = {
    "evb": {},
    "evb without a mean": {"center": False},
    "evb of scaled columns": {"scale": True},
    "evb of each feature": {"noise": "per-feature"},
    "epb": {"method": "epb"},
    "emap": {"method": "emap"},
    "vb": {"method": "vb", "prior_variance": 2.0},
    "ml": {"method": "ml", "n_components": 2},
}


@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
@pytest.mark.parametrize("alike", [1, 3])
def test_fits_with_holes(away, options, alike):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8)) + 2
    X[np.repeat(rng.random((60 // alike, 8)) < 0.3, alike, axis=0)] = np.nan
    here, mine = (BayesianPCA(**options, tol=1e-6).fit(A) for A in (X, away(X)))
    assert mine.n_components_ == here.n_components_ >= 2
    assert mine.free_energy_ == pytest.approx(here.free_energy_, rel=1e-12)
    np.testing.assert_allclose(to_numpy(mine.impute(away(X))), here.impute(X), atol=1e-10)
    density = to_numpy(mine.score_samples(away(X)))
    np.testing.assert_allclose(density, here.score_samples(X), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fits_of_complete_data(away, dtype):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(2000, 4)) @ rng.normal(size=(4, 900)) + rng.normal(size=(2000, 900))
    X = (X + 2).astype(dtype)
    found = [
        krylov.decompose(dense_operator(A), plan=solve, rng=np.random.default_rng(0), max_basis=600)
        for A in (X, away(X))
    ]
    here, mine = (solve(each.spectrum) for each in found)
    assert mine.rank == here.rank == 4
    rel = 1e-9 if dtype == "float64" else 1e-5
    assert mine.noise_variance == pytest.approx(here.noise_variance, rel=rel)
    theirs, ours = (np.asarray(to_numpy(each.right(4)), dtype=float) for each in found)
    turns = np.linalg.svd(ours @ theirs.T, compute_uv=False)
    assert turns == pytest.approx(np.ones(4), abs=1e-6)


def test_what_torch_has_been_told_before_is_done_before():
    """Torch computes on its own stream while the host goes on; kernels must wait for it."""
    if gpu() is None:
        pytest.skip("there is no GPU, or no CuPy")
    torch = pytest.importorskip("torch")
    A = torch.ones((4000, 4000), device="cuda", dtype=torch.float64) / 4000
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        X = A
        for _ in range(50):
            X = X @ A
        totals, squares = cuda.sums_and_squares(X)
        np.testing.assert_allclose(totals.cpu().numpy(), 1.0, rtol=1e-10)
        assert float(squares) == pytest.approx(1.0)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_operators(there, offset):
    X = np.random.default_rng(0).normal(size=(500, 30)) + offset
    found, wanted = dense_operator(there(X)), dense_operator(X)
    np.testing.assert_allclose(to_numpy(found.mean), wanted.mean, rtol=1e-13)
    assert found.sum_of_squares == pytest.approx(wanted.sum_of_squares, rel=1e-12)

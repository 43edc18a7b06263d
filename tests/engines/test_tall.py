"""Products with tall matrices on the workers, and the decomposition based on them."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.engines import decompose, map_reduce
from bayespca.engines.randomized.orthonormal import gram_of, orthonormal
from bayespca.sources.cluster import computed
from bayespca.sources.columns import column_deviations
from bayespca.sources.partitions import partitioned
from bayespca.spectrum import solve


@pytest.fixture(autouse=True)
def products(monkeypatch):
    """Limit Gram matrices to a short side of 100, and run everything in one thread."""
    monkeypatch.setattr(map_reduce, "GRAM_WIDTH", 100)
    with dask.config.set(scheduler="synchronous"):
        yield


def matrix(n, p, *, dtype=np.float64, offset=0.0, rank=4):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=(n, p))
    return (X + offset * rng.normal(size=p)).astype(dtype)


def operator_of(x, *, center=True):
    data = partitioned(x)
    seen, live = column_deviations(data, center=center), np.ones(data.n_features, dtype=bool)
    return map_reduce._operator(data, seen, live, center=center)


def gathered(columns):
    return np.concatenate(
        [
            np.concatenate(row, axis=1)
            for row in zip(*(computed(*piece) for piece in columns.rows.pieces), strict=True)
        ]
    )


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)])
def test_products(center, shape):
    X = matrix(*shape, offset=30.0)
    operator = operator_of(da.from_array(X, chunks=(90, 90)), center=center)
    A = X - center * X.mean(axis=0)
    T = A.T if shape[0] < shape[1] else A
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(T.shape[1], 5))
    image = operator.matmul(Q)
    assert gathered(image) == pytest.approx(T @ Q, rel=1e-10, abs=1e-10)
    assert operator.rmatmul(image) == pytest.approx(T.T @ T @ Q, rel=1e-9, abs=1e-8)
    assert operator.sum_of_squares == pytest.approx(np.sum(A**2), rel=1e-12)


def test_algebra_of_tall_rows():
    operator = operator_of(da.from_array(matrix(300, 40), chunks=(70, 40)))
    rng = np.random.default_rng(1)
    a, b = (operator.matmul(rng.normal(size=(40, k))).T for k in (5, 3))
    A, B = gathered(a.T).T, gathered(b.T).T
    assert a @ b.T == pytest.approx(A @ B.T)
    turn = rng.normal(size=(5, 3))
    assert gathered((a - turn @ b).T).T == pytest.approx(A - turn @ B)
    assert gathered((a / 4.0).T).T == pytest.approx(A / 4)
    R = a.triangle()
    assert R.T @ R == pytest.approx(A @ A.T)
    basis = operator.new_basis(np.zeros(0))
    assert (a @ basis.rows.T).shape == (5, 0)
    basis.append(a)
    basis.append(b)
    assert basis.size == 8
    assert b @ basis.rows.T == pytest.approx(B @ np.concatenate([A, B]).T)
    along = rng.normal(size=(2, 8))
    assert gathered((along @ basis.rows).T).T == pytest.approx(along @ np.concatenate([A, B]))


def test_directions_below_rounding_are_left_out():
    """For nearly dependent products the triangle decides, as Householder's Q would."""
    operator = operator_of(da.from_array(matrix(300, 40), chunks=(70, 40)))
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(40, 4))
    Q = np.column_stack([Q, Q @ rng.normal(size=(4, 2))])
    image = operator.matmul(Q).T
    beyond, rows = orthonormal(image, gram_of(image), 1e-9)
    assert rows.shape[0] == 4
    assert rows @ rows.T == pytest.approx(np.eye(4), abs=1e-8)
    assert gathered((beyond @ rows).T) == pytest.approx(gathered(image.T), abs=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(900, 300), (300, 900)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_answer_is_that_of_the_dense_engine(dtype, shape, center, offset):
    X = matrix(*shape, dtype=dtype, offset=offset)
    X[:, [0, 17]] = 3.25 * center, 0.0
    x = da.from_array(X, chunks=(130, 110))
    reference = decompose(X.astype(np.float64), plan=solve, center=center, engine="dense")
    found = decompose(partitioned(x), plan=solve, center=center, random_state=0)
    assert found.engine == "dask"
    assert not found.spectrum.is_complete
    assert found.miss_probability <= 1e-6
    ours, theirs = solve(found.spectrum), solve(reference.spectrum)
    assert found.spectrum.shape == reference.spectrum.shape
    assert found.n_samples == shape[0]
    assert ours.rank == theirs.rank
    k, tol = ours.rank, 1e-8 if dtype == np.float64 else 1e-4
    known = found.spectrum.singular_values[:k]
    assert known == pytest.approx(reference.spectrum.singular_values[:k], rel=tol)
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=tol)
    overlap = np.linalg.svd(found.right(k) @ reference.right(k).T, compute_uv=False)
    assert overlap == pytest.approx(np.ones(k), abs=tol)
    assert found.mean == pytest.approx(reference.mean, rel=1e-6, abs=1e-6)


def test_unknown_numbers_of_rows():
    X = matrix(900, 300)
    x = da.from_array(X, chunks=(130, 300))
    found = BayesianPCA(random_state=0).fit(x[x[:, 0] > -np.inf])
    reference = BayesianPCA().fit(X)
    assert found.n_components_ == reference.n_components_ == 4
    assert found.noise_variance_ == pytest.approx(reference.noise_variance_, rel=1e-8)


def test_what_products_cannot_tell_takes_the_matrix_or_is_refused(monkeypatch):
    X = matrix(900, 300)
    x = da.from_array(X, chunks=(130, 300))
    found = BayesianPCA("laplace").fit(x)
    assert found.spectrum_.is_complete
    assert found.n_components_ == BayesianPCA("laplace").fit(X).n_components_
    monkeypatch.setattr(map_reduce.running, "MEMORY_LIMIT", 1e5)
    with pytest.raises(ValueError, match="short side of the Dask collection is 300"):
        BayesianPCA("laplace").fit(x)


def test_no_variation():
    found = BayesianPCA(random_state=0).fit(da.full((900, 300), 2.5, chunks=(130, 300)))
    assert found.n_components_ == 0


def test_nothing_tall_comes_to_the_client(monkeypatch):
    """The client gets neither any of the 3000 rows nor a vector of that length."""
    sizes = []

    def watched(*delayed):
        values = computed(*delayed)
        sizes.extend(getattr(value, "shape", ()) for value in values)
        return values

    for module in ("engines.tall", "engines.map_reduce", "sources.columns"):
        monkeypatch.setattr(f"bayespca.{module}.computed", watched)
    x = da.from_array(matrix(3000, 200), chunks=(500, 200))
    assert BayesianPCA(random_state=0).fit(x).n_components_ == 4
    assert sizes
    assert max((max(size, default=0) for size in sizes), default=0) <= 200

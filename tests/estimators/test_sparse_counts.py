"""`GeneralizedPCA` of sparse matrices: results as for dense ones, which are never formed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bayespca import GeneralizedPCA, load

CONTAINERS = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "csc_matrix": sp.csc_matrix,
}


def counts(kind="poisson", n=240, p=50, base=-2.0, seed=0):
    """Counts of rank 2 in rows of different sizes, most of them 0."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, 2)), 0.8 * rng.normal(size=(p, 2))
    rate = np.exp(A @ B.T + base + rng.normal(size=p) + 0.4 * rng.normal(size=(n, 1)))
    if kind == "negative-binomial":
        rate *= rng.gamma(2.0, 0.5, size=rate.shape)
    X = rng.poisson(rate)
    return (X > 0).astype(int) if kind == "bernoulli" else X


@pytest.mark.parametrize(
    ("kind", "sized"),
    [
        *(("poisson", False), ("poisson", True), ("negative-binomial", False)),
        *(("negative-binomial", True), ("bernoulli", False)),
    ],
)
def test_as_dense_ones(kind, sized):
    X = counts(kind)
    options = {"likelihood": kind, "row_sizes": sized}
    dense, sparse = (
        GeneralizedPCA(**options).fit(each) for each in (X.astype(float), sp.csr_array(X))
    )
    assert sparse.n_components_ == dense.n_components_ > 0
    assert sparse.n_iter_ == dense.n_iter_
    assert sparse.free_energy_ == pytest.approx(dense.free_energy_, rel=1e-12)
    for name in ("components_", "mean_", "explained_variance_"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), atol=1e-6)
    new = counts(kind, seed=1)
    for given in (new, sp.csr_array(new)):
        T, std = sparse.transform(given, return_std=True)
        both = dense.transform(new.astype(float), return_std=True)
        np.testing.assert_allclose(T, both[0], atol=1e-5)
        np.testing.assert_allclose(std, both[1], atol=1e-5)
    np.testing.assert_allclose(
        sparse.score_samples(sp.csr_array(new)), dense.score_samples(new), atol=1e-5
    )


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_containers(name, dtype):
    X = counts()
    expected = GeneralizedPCA(likelihood="poisson", tol=1e-2).fit(sp.csr_array(X))
    given = CONTAINERS[name](X.astype(dtype))
    found = GeneralizedPCA(likelihood="poisson", tol=1e-2).fit(given)
    assert found.free_energy_ == expected.free_energy_


def test_likelihoods_are_read_from_the_cells():
    kinds = GeneralizedPCA().fit(sp.csr_array(counts("bernoulli"))).likelihoods_
    assert set(kinds.values()) == {"bernoulli"}
    kinds = GeneralizedPCA(tol=1e-2).fit(sp.csr_array(counts(base=-1.0))).likelihoods_
    assert set(kinds.values()) == {"poisson", "negative-binomial"}
    asked = GeneralizedPCA(likelihood={0: "poisson"}, tol=1e-2).fit(sp.csr_array(counts()))
    assert asked.likelihoods_["x0"] == "poisson"


def test_there_is_nothing_to_fill():
    X = sp.csr_array(counts())
    model = GeneralizedPCA(likelihood="poisson", tol=1e-2).fit(X)
    full, holes = model.impute(X, interval=0.9)
    assert (full != X).nnz == 0
    assert holes["row"].size == holes["probability"].size == 0
    assert (model.sample_imputations(X, 1, 0)[0] != X).nnz == 0


def test_no_dense_matrix_is_ever_made():
    rng = np.random.default_rng(0)
    n, p = 16_000, 200
    places = rng.integers(0, n, 50_000), rng.integers(0, p, 50_000)
    X = sp.csr_array((np.ones(50_000), places), shape=(n, p))
    model = GeneralizedPCA(2, likelihood="poisson", row_sizes=True, max_iter=1)
    # Fit once before measuring, so that imports and compilation do not count.
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(X)
        model.transform(X[:1000])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * p * 8


def test_checkpoints_and_files(tmp_path):
    X = sp.csr_array(counts())
    options = {"likelihood": "poisson", "row_sizes": True}
    model = GeneralizedPCA(**options, checkpoint=str(tmp_path / "c")).fit(X)
    assert model.free_energy_ == pytest.approx(GeneralizedPCA(**options).fit(X).free_energy_)
    model.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("value", "likelihood", "said"),
    [
        (-1.0, "poisson", "column 'x3' of the sparse X holds -1 in row 2 .* is not a count"),
        (0.5, "auto", "column 'x3' of the sparse X holds 0.5 in row 2 .* is not a count"),
        (2.0, "bernoulli", "column 'x3' of the sparse X holds 2 in row 2 .* is not 0 or 1"),
        (1.0, "normal", "X is sparse, and its column 'x0' is 'normal'"),
    ],
)
def test_what_will_not_do(value, likelihood, said):
    X = counts("bernoulli").astype(float)
    X[2, 3] = value
    with pytest.raises(ValueError, match=said):
        GeneralizedPCA(likelihood=likelihood).fit(sp.csr_array(X))


def test_new_rows_must_be_counts_too():
    X = counts().astype(float)
    model = GeneralizedPCA(likelihood="poisson", tol=1e-2).fit(sp.csr_array(X))
    X[2, 3] = -1
    with pytest.raises(ValueError, match="holds -1 in row 2"):
        model.transform(sp.csr_array(X))

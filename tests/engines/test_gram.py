"""Singular values from a Gram matrix, and from rows where it is not precise enough."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bayespca.engines import gram
from bayespca.engines.gram import Eigen, decompose, is_precise, squares_of, squares_of_rows
from bayespca.spectrum import Spectrum


def matrix(n, p, strongest=30.0):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, p))
    return V + strongest * np.outer(rng.normal(size=n), rng.normal(size=p))


def solution(noise_variance, threshold):
    return SimpleNamespace(noise_variance=noise_variance, threshold=threshold)


@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (200, 160)])
@pytest.mark.parametrize("known", ["gram", "rows", "singular values"])
def test_either_side_gives_the_singular_values(shape, known):
    V, scale = matrix(*shape), np.linspace(0.5, 2, shape[1])
    found = {
        "gram": lambda: squares_of(V.T @ V, None, scale),
        "rows": lambda: squares_of(None, V, scale),
        "singular values": lambda: squares_of_rows(V, scale),
    }[known]()
    _, gamma, right = np.linalg.svd(V / scale, full_matrices=False)
    assert np.sqrt(np.maximum(found.squares[: gamma.size], 0)) == pytest.approx(gamma)
    assert np.abs(found.right(2) @ right[:2].T) == pytest.approx(np.eye(2), abs=1e-8)


def test_rows_decide_where_squares_have_lost_the_noise():
    """The noise is 1e-9 of the strongest component, so its square is lost in rounding."""
    V = matrix(60, 6, strongest=1e9)
    gamma = np.linalg.svd(V, compute_uv=False)
    assert np.sqrt(squares_of_rows(V, np.ones(6)).squares) == pytest.approx(gamma, rel=1e-6)
    lost = squares_of(V.T @ V, None, np.ones(6)).squares[-1]
    assert abs(np.sqrt(max(lost, 0)) / gamma[-1] - 1) > 1e-6
    spectrum = Spectrum(gamma, (6, 60))
    assert not is_precise(spectrum, solution(1.0, 20.0), np.dtype(np.float64))
    assert is_precise(spectrum, solution(1e10, 1e6), np.dtype(np.float64))


def test_top_eigenvectors_of_any_number():
    symmetric = np.cov(matrix(40, 7).T)
    values, vectors = np.linalg.eigh(symmetric)
    eigen = Eigen.of(symmetric)
    assert eigen.values == pytest.approx(values)
    for k in (0, 1, 3, 7):
        top = eigen.top(k)
        assert top.shape == (7, k)
        assert np.abs(np.sum(top * vectors[:, ::-1][:, :k], axis=0)) == pytest.approx(np.ones(k))


# Blocks have as many columns as fit into cache, so the last columns are in another block.
@pytest.mark.parametrize("offset", [0.0, 0.5, 1e7], ids=["none", "small", "large"])
@pytest.mark.parametrize("everywhere", [True, False], ids=["everywhere", "in later blocks"])
def test_means_of_wide_data_are_taken_out(offset, everywhere):
    V = matrix(20, 60_000, strongest=3.0)
    V -= V.mean(axis=0)
    shift = np.where((np.arange(60_000) > 40_000) | everywhere, offset, 0.0)
    found = decompose(V + shift, center=True)
    _, gamma, right = np.linalg.svd(V, full_matrices=False)
    assert found.spectrum.singular_values == pytest.approx(gamma[:-1], rel=1e-7)
    assert found.mean == pytest.approx(shift, abs=1e-9 * max(offset, 1.0))
    top = found.right(1)
    assert abs(float(top[0] @ right[0])) == pytest.approx(1.0, abs=1e-10)
    assert float(np.abs(top).max()) == pytest.approx(float(np.abs(right[0]).max()), rel=1e-6)


@pytest.mark.parametrize("threads", [2, 3])
def test_scatter_by_threads_is_that_of_one(threads, monkeypatch):
    monkeypatch.setattr(gram, "blas_threads", lambda: threads)
    X = np.random.default_rng(0).normal(size=(101, 4)) + 5
    shift = X[0]
    found, total = gram._scatter_by_threads(X, shift)
    apart = X - shift
    np.testing.assert_allclose(found, apart.T @ apart, rtol=1e-12)
    np.testing.assert_allclose(total, apart.sum(axis=0), rtol=1e-12)

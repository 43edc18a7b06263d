"""ψ statistics against quadrature, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.nonlinear import compiled, kernels, statistics
from bayespca.nonlinear.data import GPRows
from bayespca.nonlinear.kernels import Latent
from bayespca.nonlinear.pairs import HOST, ArrayPairs
from oracles import gplvm as oracle

KERNELS = (
    "squared-exponential",
    "linear",
    "squared-exponential+linear",
    "squared-exponential+bias+white",
    "linear+bias",
    "squared-exponential+linear+bias+white",
)


def problem(name, seed=0, N=4, M=5, Q=2):
    rng = np.random.default_rng(seed)
    hyper = kernels.first_hyper(kernels.kernel_named(name), rng.uniform(0.3, 2, size=Q))
    latent = Latent(rng.normal(size=(N, Q)), rng.uniform(0.05, 1, size=(N, Q)))
    return latent, rng.normal(size=(M, Q)), hyper


def rows_like(latent, seen=None, pairs=HOST, D=3):
    values = np.random.default_rng(5).normal(size=(len(latent.mean), D))
    return GPRows(pairs.moved(values), None if seen is None else pairs.moved(seen), pairs)


def derivatives(rng, G, M, D=3):
    """Random derivatives with respect to the sums over rows."""
    return statistics.Statistics(
        rng.normal(size=G),
        rng.normal(size=(M, D)),
        rng.normal(size=(G, M)),
        *(symmetric(rng.normal(size=(G, M, M))) for _ in range(2)),
    )


def parameters(hyper):
    return hyper.w, hyper.v, hyper.b, hyper.e


@pytest.mark.parametrize("name", KERNELS)
def test_statistics_are_averages(name):
    latent, Z, hyper = problem(name)
    psi0, psi1, psi2 = (
        of(latent, *rest)
        for of, rest in (
            (kernels.zeroth, (hyper,)),
            (kernels.first, (Z, hyper)),
            (kernels.second, (Z, hyper)),
        )
    )
    for n in range(len(psi0)):
        expected = oracle.psi_statistics(
            latent.mean[n], latent.variance[n], Z, parameters(hyper), order=50
        )
        np.testing.assert_allclose(psi0[n], expected[0], rtol=1e-10)
        np.testing.assert_allclose(psi1[n], expected[1], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(psi2[n], expected[2], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("holes", [False, True])
def test_sums_are_those_of_rows(name, holes):
    latent, Z, hyper = problem(name, N=300)
    seen = (np.random.default_rng(1).random((300, 3)) < 0.7).astype(float) if holes else None
    rows = rows_like(latent, seen)
    found, _ = statistics.statistics(latent, Z, hyper, rows)
    mask = np.ones((300, 1)) if seen is None else seen
    psi1, psi2 = kernels.first(latent, Z, hyper), kernels.second(latent, Z, hyper)
    np.testing.assert_allclose(found.psi0, kernels.zeroth(latent, hyper) @ mask, rtol=1e-12)
    np.testing.assert_allclose(found.psi2, np.einsum("ng,nij->gij", mask, psi2), rtol=1e-11)
    outer = np.einsum("ng,ni,nj->gij", mask, psi1, psi1)
    np.testing.assert_allclose(found.outer, outer, rtol=1e-11)
    np.testing.assert_allclose(found.sums, mask.T @ psi1, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.pulled, psi1.T @ rows.values, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("holes", [False, True])
def test_gradients_are_differences(name, holes):
    latent, Z, hyper = problem(name)
    rng = np.random.default_rng(2)
    G, M = (3, len(Z)) if holes else (1, len(Z))
    seen = (rng.random((4, 3)) < 0.7).astype(float) if holes else None
    rows, given = rows_like(latent, seen), derivatives(rng, G, M)

    def total(mean, variance, Z, logs):
        at, _ = statistics.statistics(Latent(mean, variance), Z, hyper.with_logs(logs), rows)
        return sum(
            float((one * two).sum())
            for one, two in zip(vars(given).values(), vars(at).values(), strict=True)
        )

    at = statistics.statistics(latent, Z, hyper, rows)
    found = statistics.gradients(latent, Z, hyper, given, at, rows)
    where = [latent.mean, latent.variance, Z, hyper.logs]
    slopes = [found.mean, found.variance, found.Z, found.hyper * hyper.vector]
    for i, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, differences(total, where, i), rtol=1e-6, atol=1e-7)


def symmetric(stack):
    return stack + stack.transpose(0, 2, 1)


def differences(function, where, i, h=1e-6):
    out = np.empty(where[i].shape)
    for index in np.ndindex(out.shape):
        moved = [[one.copy() for one in where] for _ in range(2)]
        moved[0][i][index] += h
        moved[1][i][index] -= h
        out[index] = (function(*moved[0]) - function(*moved[1])) / (2 * h)
    return out


def test_the_exponential_is_one():
    x = np.concatenate([-np.logspace(-12, 2.84, 2000), [0.0, 1.0, 20.0]])
    found = np.array([compiled.exponential(one) for one in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=5e-14)


def test_unknown_kernels_are_named():
    with pytest.raises(ValueError, match="the unknown part 'matern'"):
        kernels.kernel_named("linear+matern")
    with pytest.raises(ValueError, match="does not depend on the latent points"):
        kernels.kernel_named("bias+white")
    assert kernels.LINEAR + kernels.SQUARED_EXPONENTIAL == "squared-exponential+linear"
    assert kernels.kernel_named("rbf + bias").parts == ("squared-exponential", "bias")


def library(name):
    if name == "numpy":
        return np.empty(0)
    if name == "strict":
        return pytest.importorskip("array_api_strict").empty(0)
    return pytest.importorskip("torch", reason="torch is not installed").empty(0).double()


@pytest.mark.parametrize("name", ["numpy", "strict", "torch"])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    "kernel",
    ["squared-exponential", "squared-exponential+white", "squared-exponential+linear"],
)
def test_arrays_of_other_libraries_give_the_same(name, kernel, holes):
    latent, Z, hyper = problem(kernel, N=50)
    seen = (np.random.default_rng(1).random((50, 3)) < 0.7).astype(float) if holes else None
    here, there = (rows_like(latent, seen, pairs) for pairs in (HOST, ArrayPairs(library(name))))
    at_here = statistics.statistics(latent, Z, hyper, here)
    at_there = statistics.statistics(latent, Z, hyper, there)
    if "linear" not in kernel:
        assert type(at_there[1]) is type(library(name))
    for one, other in zip(vars(at_here[0]).values(), vars(at_there[0]).values(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
    given = derivatives(np.random.default_rng(3), 3 if holes else 1, len(Z))
    found_here = statistics.gradients(latent, Z, hyper, given, at_here, here)
    found_there = statistics.gradients(latent, Z, hyper, given, at_there, there)
    for one, other in zip(vars(found_here).values(), vars(found_there).values(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)


def test_points_far_from_the_origin_keep_their_digits():
    """Exponents come from products whose factors contain squared coordinates."""
    latent, Z, hyper = problem("squared-exponential", N=30)
    moved = Latent(latent.mean + 1e3, latent.variance)
    expected = kernels.second(latent, Z, hyper)
    np.testing.assert_allclose(kernels.second(moved, Z + 1e3, hyper), expected, rtol=1e-9)

"""The papers' plain iteration: its free energy by definition, its descent, and its end point."""

from __future__ import annotations

from importlib import import_module
from itertools import islice, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.cli import reproduction
from oracles import sweeps as oracle

iteration = import_module(f"{reproduction.experiments().__name__}.iteration")

METHODS = ("evb", "epb", "emap")
# Only EVB can learn its noise: under EMAP it goes to zero (aistats2014 Section 4.3).
CASES = [*((method, False) for method in (*METHODS, "epb-a", "epb-b")), ("evb", True)]


def matrix(L, M, rank, seed=0):
    rng = np.random.default_rng(seed)
    signal = 3 * rng.standard_normal((L, rank)) @ rng.standard_normal((rank, M))
    return signal + 0.5 * rng.standard_normal((L, M))


def after(n, V, method, **options):
    return next(islice(iteration.sweeps(V, method, **options), n - 1, None))


@pytest.mark.parametrize("shape", [(5, 8), (8, 5)])
@pytest.mark.parametrize(("method", "learn_noise"), CASES)
def test_free_energy_is_its_definition_written_out(shape, method, learn_noise):
    V = matrix(*shape, 2)
    # Later, point estimates of dead components fall below the floor and are no longer counted.
    sweep = after(1, V, method, noise=1.5, learn_noise=learn_noise)
    A, B = sweep.A, sweep.B
    family = SimpleNamespace(integrates_a=A.integrated, integrates_b=B.integrated)
    written_out = oracle.free_energy(
        V, A.mean, B.mean, A.covariance, B.covariance, A.prior, B.prior, sweep.noise, family
    )
    assert sweep.free_energy == pytest.approx(written_out, rel=1e-12)


def test_free_energy_of_some_components_leaves_out_divergences_of_the_others():
    V = matrix(5, 8, 2)
    sweep = after(1, V, "emap", noise=1.0)
    others = np.arange(5) >= 2
    left_out = sum(
        oracle.factor_energy(f.mean[:, others], None, f.prior[others], integrated=False)
        for f in (sweep.A, sweep.B)
    )
    expected = sweep.free_energy - left_out
    assert sweep.free_energy_of(~others) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", ["epb", "emap"])
def test_dead_components_leave_a_constant(method):
    V = matrix(6, 9, 1)
    one, other = (after(n, V, method, noise=1.0).free_energy for n in (500, 600))
    assert np.isfinite(one)
    assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize(("method", "learn_noise"), CASES)
def test_free_energy_never_rises(method, learn_noise):
    V = matrix(12, 20, 2)
    run = islice(iteration.sweeps(V, method, noise=1.0, learn_noise=learn_noise), 60)
    energies = [sweep.free_energy for sweep in run]
    assert all(now <= before + 1e-9 * abs(before) for before, now in pairwise(energies))


@pytest.mark.parametrize("shape", [(12, 20), (20, 12)])
@pytest.mark.parametrize("method", METHODS)
def test_it_ends_at_the_closed_form(method, shape):
    # One component: two would rotate into each other for thousands of sweeps.
    V = matrix(*shape, 1)
    end = after(3000, V, method, noise=1.0, seed=1)
    closed = BayesianPCA(method, noise_variance=1.0, center=False).fit(V.T)
    found = np.linalg.svd(end.B.mean @ end.A.mean.T, compute_uv=False)[: end.rank]
    assert end.rank == closed.n_components_
    np.testing.assert_allclose(found, closed.shrunk_singular_values_, rtol=1e-6)
    # Under EVB the variances of dead components go to zero like one over the number of sweeps.
    left = 0.05 if method == "evb" else 1e-6
    assert closed.free_energy_ == pytest.approx(end.free_energy_of(end.alive), abs=left)


@pytest.mark.parametrize("method", ["epb", "emap"])
def test_forgotten_components_change_nothing(method):
    V = matrix(6, 9, 1)
    with_all, without = (after(80, V, method, noise=1.0, forgets=f) for f in (False, True))
    assert without.A.mean.shape[1] < with_all.A.mean.shape[1]
    assert without.rank == with_all.rank
    assert without.error == pytest.approx(with_all.error, rel=1e-12)


def test_partially_bayesian_integrates_out_the_longer_side():
    assert iteration.method_of("epb", (5, 8)) == "epb-a"
    assert iteration.method_of("epb", (8, 5)) == "epb-b"

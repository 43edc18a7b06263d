"""Sweeps: their free energy is the defined one, never rises, and ends at the closed forms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespca import BayesianPCA, inference
from bayespca.datasets import low_rank
from bayespca.engines.records import Decomposition
from bayespca.linear.fit import Decomposed
from bayespca.linear.sweeps import step as sweeps
from bayespca.linear.sweeps.fit import sweep_model
from bayespca.linear.sweeps.step import SweepProblem, random_start
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.spectrum import FAMILIES, METHODS, VB, Spectrum
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.tolerances import GONE
from oracles.sweeps import free_energy

LEARNED, GIVEN = FactorPrior("learned"), FactorPrior("given", 3.0)


def diagonal(gamma):
    """Diagonal data with these singular values, in their own units."""
    return SimpleNamespace(gamma=gamma, sum_of_squares=float(gamma @ gamma))


def problem(V, family, prior, *, learns_noise=False, settle=True):
    data = diagonal(np.linalg.svd(V, compute_uv=False))
    least = GONE * np.sqrt(data.sum_of_squares / V.size)
    factors = Factors(V.shape, family, prior, least)
    return data, SweepProblem(factors, learns_noise, settle)


def decomposed(spectrum):
    """A decomposition with this spectrum, whose singular vectors are the features."""
    L, M = spectrum.shape
    return Decomposed(Decomposition(spectrum, lambda k: np.eye(L)[:k], np.zeros(L), M, "none"))


def simulated(L, M, rank, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(L, rank)) @ rng.normal(size=(rank, M)) + rng.normal(size=(L, M))


def in_full(state, data, shape):
    """V, A and B with all their rows, in the coordinates in which V is diagonal."""
    L, M = shape
    K = data.gamma.size
    V = np.zeros((L, M))
    V[range(K), range(K)] = data.gamma
    A, B = np.zeros((M, state.rank)), np.zeros((L, state.rank))
    A[:K], B[:K] = state.a, state.b
    return V, A, B


def defined_energy(state, data, factors):
    V, A, B = in_full(state, data, factors.shape)
    return free_energy(
        V, A, B, state.a_cov, state.b_cov, state.prior_a, state.prior_b,
        state.noise_variance, factors.family,
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [LEARNED, GIVEN])
def test_the_free_energy_is_the_defined_one(family, prior):
    data, case = problem(simulated(5, 8, 2), family, prior)
    state = random_start(data, case.factors, 4, 1.0, np.random.default_rng(0))
    for _ in range(3):
        state, info = sweeps.step(state, data, case)
    gone = state.n_gone * case.factors.gone_energy
    expected = defined_energy(state, data, case.factors)
    assert info.free_energy - gone == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [LEARNED, GIVEN])
def test_each_update_is_a_minimum(family, prior):
    """No small change of B, priors or coordinates lowers the free energy."""
    data, case = problem(simulated(5, 8, 2), family, prior)
    factors = case.factors
    state = random_start(data, factors, 3, 1.0, np.random.default_rng(0))
    updated = sweeps.updated(state, data.gamma, factors)
    rng = np.random.default_rng(1)
    base = defined_energy(updated, data, factors)
    for _ in range(20):
        other = replace(updated, b=updated.b + 1e-4 * rng.normal(size=updated.b.shape))
        assert defined_energy(other, data, factors) > base
    settled = sweeps.with_best_priors(sweeps.settled(updated, factors), factors)
    base = defined_energy(settled, data, factors)
    for size in (1e-3, 0.05):
        for _ in range(20):
            R = np.eye(3) + size * rng.normal(size=(3, 3))
            turned = sweeps.turned(settled, R, np.linalg.inv(R))
            other = sweeps.with_best_priors(turned, factors)
            assert defined_energy(other, data, factors) > base


@given(
    seed=st.integers(0, 10_000),
    L=st.integers(1, 12),
    M=st.integers(1, 12),
    family=st.sampled_from(FAMILIES),
    prior=st.sampled_from([LEARNED, GIVEN, FactorPrior("given", 1e-3)]),
    learns=st.booleans(),
    settle=st.booleans(),
)
def test_the_free_energy_never_rises(seed, L, M, family, prior, learns, settle):
    """A rise is a warning, and warnings are errors here."""
    learns = learns and family == VB
    V = simulated(L, M, min(L, M, 3), seed)
    data, case = problem(V, family, prior, learns_noise=learns, settle=settle)
    rng = np.random.default_rng(seed)
    state = random_start(data, case.factors, min(L, M), 1.0, rng)
    step = partial(sweeps.step, data=data, problem=case)
    done = inference.run(step, state, max_iter=30, tol=1e-12)
    assert done.reason in ("settled", "max_iter")


CASES = [
    ("evb", {}),
    ("epb", {}),
    ("emap", {}),
    ("vb", {"prior_variance": 4.0}),
    ("pb", {"prior_variance": 4.0}),
    ("pb-a", {"prior_variance": 4.0}),
    ("pb-b", {"prior_variance": 4.0}),
    ("map", {"prior_variance": 4.0}),
    ("ml", {"n_components": 3}),
]


@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.parametrize("noise_variance", ["auto", 1.2])
@pytest.mark.parametrize("shape", [(100, 30), (25, 60)])
@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
def test_iteration_ends_at_the_closed_form(method, options, noise_variance, shape):
    X = low_rank(*shape, 4, random_state=0).X
    closed = BayesianPCA(method, noise_variance=noise_variance, **options).fit(X)
    swept = BayesianPCA(
        method,
        noise_variance=noise_variance,
        solver="iterative",
        tol=1e-13,
        max_iter=20_000,
        random_state=0,
        **options,
    ).fit(X)
    assert swept.converged_
    assert swept.n_components_ == closed.n_components_
    assert swept.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-8)
    assert swept.noise_variance_ == pytest.approx(closed.noise_variance_, rel=1e-5)
    np.testing.assert_allclose(swept.denoise(X), closed.denoise(X), atol=1e-3)
    cosines = np.abs(np.sum(swept.components_ * closed.components_, axis=1))
    assert (cosines > 1 - 1e-4).all()
    np.testing.assert_allclose(swept.components_std_, closed.components_std_, rtol=0.02)
    # The free energy is flat near its minimum: weak components are off by the root of its error.
    size = closed.singular_values_[0]
    np.testing.assert_allclose(
        swept.shrunk_singular_values_, closed.shrunk_singular_values_, atol=1e-5 * size
    )


@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
def test_the_closed_form_is_where_sweeps_stay(method, options):
    X = low_rank(100, 30, 4, random_state=0).X
    closed = BayesianPCA(method, **options).fit(X)
    swept = BayesianPCA(method, solver="iterative", init="closed", tol=1e-10, **options).fit(X)
    assert swept.n_iter_ <= 3
    assert swept.n_components_ == closed.n_components_
    assert swept.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-9)
    # The first sweep, which may only lower the free energy, finds nothing to lower.
    assert np.ptp(swept.trace_.free_energy) < 1e-8 * abs(closed.free_energy_)
    np.testing.assert_allclose(swept.denoise(X), closed.denoise(X), atol=1e-5)


def test_a_sweep_does_not_see_the_number_of_samples():
    """The size of the state depends only on the short side of the data."""
    gamma = np.sort(np.random.default_rng(0).uniform(1, 10, 20))[::-1]
    for M in (10**3, 10**7):
        data = diagonal(gamma * np.sqrt(M))
        case = SweepProblem(Factors((20, M), VB, LEARNED, GONE), learns_noise=True)
        state = random_start(data, case.factors, 20, 1.0, np.random.default_rng(0))
        assert state.a.shape == state.b.shape == (20, 20)
        state, _ = sweeps.step(state, data, case)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    X = low_rank(60, 10, 2, random_state=0).X
    options = {"solver": "iterative", "random_state": 0}
    plain, other = (BayesianPCA(**options).fit(X * c) for c in (1.0, scale))
    assert other.n_components_ == plain.n_components_
    assert other.noise_variance_ == pytest.approx(plain.noise_variance_ * scale**2, rel=1e-9)
    change = 59 * 10 * np.log(scale)
    assert other.free_energy_ == pytest.approx(plain.free_energy_ + change, rel=1e-9)


def test_settling_saves_sweeps():
    """The papers' plain sweeps take more than ten times as many."""
    spectrum = Spectrum(np.linalg.svd(simulated(30, 80, 4), compute_uv=False), (30, 80))
    data, form, counts = decomposed(spectrum), ClosedForm(noise_variance=1.0), []
    for settle in (True, False):
        looping = inference.Looping(max_iter=20_000, tol=1e-9, random_state=0)
        found = inference.fit(sweep_model(data, form, settle=settle), data, looping)
        assert found.n_components == form(spectrum).rank
        counts.append(found.n_iter)
    assert 10 * counts[0] < counts[1]


def test_several_starts_and_seeds():
    X = low_rank(60, 12, 3, random_state=0).X
    a, b = (BayesianPCA(solver="iterative", n_init=3, random_state=1).fit(X) for _ in range(2))
    assert a.free_energy_ == b.free_energy_
    assert a.free_energy_ == pytest.approx(BayesianPCA().fit(X).free_energy_, rel=1e-7)


def test_a_callback_ends_a_fit():
    X = low_rank(60, 12, 3, random_state=0).X
    model = BayesianPCA("vb", prior_variance=1.0, solver="iterative", random_state=0)
    with pytest.warns(UserWarning, match=r"still fell by a fraction of .* in the last of 4 steps"):
        model.fit(X, callback=lambda number, info: number == 4)
    assert model.n_iter_ == 4
    assert not model.converged_
    assert model.trace_.free_energy.size == 4
    assert model.transform(X).shape == (60, model.n_components_)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "laplace"}, "solver='iterative' works with method evb"),
        ({"method": "vb"}, "needs a prior_variance"),
        ({"noise": "per-feature"}, "has an iteration of its own"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"n_init": 0}, "n_init must be a whole number of at least 1"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
    ],
)
def test_options_that_do_not_go_together(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        BayesianPCA(solver="iterative", **options).fit(np.eye(5))


@pytest.mark.parametrize("X", [np.zeros((10, 4)), np.ones((1, 3)), np.eye(3)[:, :1]])
@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
def test_data_without_anything_in_them(X):
    model = BayesianPCA(solver="iterative", random_state=0).fit(X)
    assert model.n_components_ <= 1
    assert np.isfinite(model.transform(X)).all()


# --- aistats2014 Table 1 -----------------------------------------------------------------------

TABLE = {
    "chart": (2, 2, 2),
    "glass": (1, 1, 1),
    "optdigits": (10, 10, 6),
    "satellite": (2, 2, 1),
}


def ranks_from_ten_starts(spectrum, noise_variance, method):
    form = ClosedForm(METHODS[method], noise_variance=noise_variance)
    data, ranks = decomposed(spectrum), []
    for seed in range(10):
        looping = inference.Looping(max_iter=2000, tol=1e-9, random_state=seed)
        ranks.append(inference.fit(sweep_model(data, form), data, looping).n_components)
    return form(spectrum).rank, ranks


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_table_1_benchmarks(name, load_data):
    """Raw data, noise at 0 dB: every start ends at the rank printed in the paper."""
    V = load_data(name)["X"].astype(np.float64).T
    spectrum = Spectrum(np.linalg.svd(V, compute_uv=False), V.shape)
    for method, printed in zip(("evb", "epb", "emap"), TABLE[name], strict=True):
        analytic, ranks = ranks_from_ten_starts(spectrum, "0db", method)
        assert analytic == printed
        assert ranks == [printed] * 10


@pytest.mark.slow
@pytest.mark.parametrize(("L", "M", "rank"), [(100, 300, 20), (400, 500, 5)])
def test_table_1_artificial(L, M, rank):
    """EVB and EMAP find the truth from every start, EPB its own analytic rank from 9 of 10."""
    gamma = np.linalg.svd(simulated(L, M, rank), compute_uv=False)
    spectrum = Spectrum(gamma, (L, M))
    for method in ("evb", "emap"):
        analytic, ranks = ranks_from_ten_starts(spectrum, 1.0, method)
        assert analytic == rank
        assert ranks == [rank] * 10
    analytic, ranks = ranks_from_ten_starts(spectrum, 1.0, "epb")
    assert ranks.count(analytic) >= 9

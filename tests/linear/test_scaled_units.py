"""Noise estimates must not depend on units, order, array library, storage or precision of data."""

from __future__ import annotations

import importlib
from functools import lru_cache

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from bayespca import BayesianPCA, inference
from bayespca.arrays import to_numpy
from bayespca.datasets import noisy
from bayespca.inference.checkpoint import Checkpoint
from bayespca.linear.scaled.cells import centred_sums
from bayespca.linear.scaled.fit import ScaledModel
from bayespca.linear.scaled.reading import noisy_table
from bayespca.linear.scaled.step import ScaledState
from bayespca.lowrank.noise_models import NOISES
from bayespca.spectrum.forms import ClosedForm

NAMES = {"columns": "per-feature", "rows": "per-sample", "both": "both", "ar": "autoregressive"}
KINDS = pytest.mark.parametrize("kind", NAMES)
N, P = 100, 10


@lru_cache
def made(kind):
    X = noisy(kind, N, P, 2, strength=1.0, random_state=1).X + 3
    X.flags.writeable = False
    return X


def fitted(X, kind, **options):
    always = {"n_components": "evb", "tol": 1e-13, "max_iter": 3000}
    options = {"noise": NAMES[kind], **always, **options}
    return BayesianPCA(**options).fit(X)


@lru_cache
def plain(kind):
    return fitted(made(kind), kind)


def low_rank(found, X):
    return to_numpy(found.inverse_transform(found.transform(X)))


def same(found, kind, *, tol=1e-6, shift=0.0):
    """Assert the same rank, noise model, free energy per cell and noise parameters."""
    first = plain(kind)
    assert first.n_components_ == found.n_components_ == 2
    assert found.noise_ == first.noise_
    cells = N * P
    assert found.free_energy_ / cells == pytest.approx(
        (first.free_energy_ + shift) / cells, abs=tol
    )
    assert found.fit_.noise.partials == pytest.approx(first.fit_.noise.partials, abs=tol)
    degrees = first.degrees_of_freedom_
    assert found.degrees_of_freedom_ == pytest.approx(degrees, rel=100 * tol)


@KINDS
def test_the_order_of_rows(kind):
    order = np.random.default_rng(0).permutation(N)
    found = fitted(made(kind)[order], kind)
    same(found, kind)
    first = plain(kind).sample_noise_variance_
    np.testing.assert_allclose(found.sample_noise_variance_, first[order], rtol=1e-5)


@KINDS
def test_the_order_of_columns(kind):
    """For neighbours, the columns are only reversed."""
    order = np.random.default_rng(0).permutation(P) if kind != "ar" else np.arange(P)[::-1]
    found = fitted(made(kind)[:, order], kind)
    same(found, kind)
    first = plain(kind).feature_noise_variance_
    np.testing.assert_allclose(found.feature_noise_variance_, first[order], rtol=1e-5)


def rms_change(found, first, X, unit):
    """Root mean square of the change of the low-rank part, in units of the noise."""
    size = np.sqrt(first.feature_noise_variance_)
    change = (low_rank(found, X * unit) / unit - low_rank(first, X)) / size
    return float(np.sqrt((change**2).mean()))


@lru_cache
def large(kind):
    X = noisy(kind, 300, 20, 2, random_state=1).X + 3
    return X, BayesianPCA(noise=NAMES[kind]).fit(X)


@pytest.mark.parametrize(
    ("kind", "noise", "factor"),
    [
        ("columns", "auto", 1e6),
        ("columns", "own", 1e-6),
        ("both", "own", 1e6),
        ("both", "own", 1e-6),
        ("ar", "auto", 1e6),
        ("ar", "own", 1e-6),
    ],
)
def test_the_unit_of_one_column(kind, noise, factor):
    """The prior of the variances becomes wider; nothing else changes."""
    (X, first), unit = large(kind), np.ones(20)
    unit[3] = factor
    found = BayesianPCA(noise=NAMES[kind] if noise == "own" else "auto").fit(X * unit)
    assert found.noise_ == NAMES[kind]
    assert found.n_components_ == first.n_components_ == 2
    assert rms_change(found, first, X, unit) < 0.03
    ratio = found.feature_noise_variance_ / unit**2 / first.feature_noise_variance_
    np.testing.assert_allclose(ratio, np.ones(20), atol=0.15)


@KINDS
@pytest.mark.parametrize("factor", [1e100, 1e-100])
def test_the_unit_of_all(kind, factor):
    found = fitted(made(kind) * factor, kind)
    same(found, kind, shift=(N - 1) * P * np.log(factor))
    assert found.noise_variance_ / factor**2 == pytest.approx(plain(kind).noise_variance_)


@KINDS
def test_an_offset(kind):
    same(fitted(made(kind) + 1e6, kind), kind, tol=1e-5)


@KINDS
def test_single_precision(kind):
    found = fitted(made(kind).astype(np.float32), kind)
    same(found, kind, tol=1e-4)
    assert found.components_.dtype == np.float32


@pytest.mark.parametrize("kind", ["columns", "both", "ar"])
def test_scaled_columns(kind):
    """Scaling chooses units: the prior of variances changes, the low-rank part does not."""
    X, first = large(kind)
    found = BayesianPCA(noise=NAMES[kind], scale=True).fit(X)
    assert found.n_components_ == 2
    assert rms_change(found, first, X, np.ones(20)) < 0.03
    # It is in the units of the data, so only the prior of 20 variances changes it.
    assert found.free_energy_ == pytest.approx(first.free_energy_, abs=40)


@KINDS
@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_other_libraries(kind, library):
    try:
        xp = importlib.import_module(library)
    except ImportError:
        pytest.skip(f"{library} is not installed: its wheels are too large to ask of every tester")
    X = xp.asarray(made(kind).copy())
    found = fitted(X, kind)
    same(found, kind)
    assert type(found.components_) is type(X)
    np.testing.assert_allclose(low_rank(found, X), low_rank(plain(kind), made(kind)), rtol=1e-5)
    density = to_numpy(found.score_samples(X))
    np.testing.assert_allclose(density, plain(kind).score_samples(made(kind)), rtol=1e-5)


@KINDS
def test_sparse_data(kind):
    same(fitted(sparse.csr_array(made(kind)), kind), kind)


@pytest.mark.parametrize("kind", ["columns", "ar"])
def test_blocks_and_partitions(kind):
    """Sums over the rows of blocks suffice for noise of columns and neighbours."""
    X = made(kind)
    blocks = iter([X[:40], X[40:41], X[41:]])
    same(fitted(blocks, kind, noise="auto"), kind)
    lazy = da.from_array(X, chunks=(30, P))
    same(fitted(lazy, kind), kind)
    same(fitted(lazy, kind, noise="auto"), kind)


def test_blocks_with_equal_noise():
    X = noisy("white", N, P, 2, strength=1.0, random_state=1).X
    found = BayesianPCA().fit(iter([X[:40], X[40:]]))
    assert (found.noise_, found.n_components_) == ("isotropic", 2)
    assert found.noise_evidence_ == pytest.approx(BayesianPCA().fit(X).noise_evidence_, abs=1e-6)


@pytest.mark.parametrize("kind", ["columns", "rows", "both"])
def test_a_constant_column(kind):
    X = made(kind)
    found = fitted(np.c_[X[:, :4], np.full(N, 7.0), X[:, 4:]], kind)
    same(found, kind)
    assert found.mean_[4] == 7.0
    others = np.delete(found.feature_noise_variance_, 4)
    np.testing.assert_allclose(others, plain(kind).feature_noise_variance_, rtol=1e-6)
    assert not found.components_[:, 4].any()


@KINDS
def test_a_run_that_was_broken_off_goes_on(kind, tmp_path):
    noise = NOISES[NAMES[kind]]
    table = noisy_table(made(kind), center=True, rows=noise.rows)
    model = ScaledModel(ClosedForm(), noise)
    state, _ = model.step(model.start(table, np.random.default_rng(0)), table)
    kept = Checkpoint(tmp_path / "run", ScaledState, fingerprint="", every=0.0)
    kept.keep(inference.Run(state, inference.Trace.empty()))
    ours, theirs = kept.find().state, state
    for _ in range(4):
        (ours, info), (theirs, other) = model.step(ours, table), model.step(theirs, table)
        assert info == other


@KINDS
@pytest.mark.parametrize("seed", range(4))
def test_the_free_energy_never_rises(kind, seed):
    """The loop warns of a rise, and warnings are errors here."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(4, 50, 2)
    X = noisy(kind, n, p, 2, random_state=seed).X
    energies = BayesianPCA(noise=NAMES[kind], tol=1e-7).fit(X).trace_.free_energy
    assert (np.diff(energies) <= 1e-9 * np.abs(energies[-1])).all()


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("unit", [1.0, 1e-120, 1e120])
@pytest.mark.parametrize("far", [1.0, 1e7])
def test_one_pass_tells_means_and_squares(offset, unit, far):
    """Includes data whose first row, which is subtracted, is far from the others."""
    X = np.random.default_rng(0).standard_normal((50, 4))
    X[0] *= far
    X = (X + offset) * unit
    seen = centred_sums(X)
    np.testing.assert_allclose(seen.mean / unit, X.mean(axis=0) / unit, rtol=1e-13, atol=1e-13)
    if unit == 1.0:
        squares = ((X - X.mean(axis=0)) ** 2).sum(axis=0)
        np.testing.assert_allclose(seen.squares, squares, rtol=1e-7 if offset else 1e-13)
    assert seen.are_in((1e-90, 1e90)) == (unit == 1.0)

"""torch and array-api-strict arrays with NaN: results stay on their device and match NumPy's."""

from __future__ import annotations

import importlib
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

from bayespca.arrays import to_namespace, to_numpy
from bayespca.arrays.packing import inverses, packed, packed_beside_last, times, turned, unpacked
from bayespca.inference import Checkpoint
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank import imputing, rows
from bayespca.lowrank.from_complete import from_directions
from bayespca.lowrank.noise_models import BOTH, PER_FEATURE, PER_SAMPLE
from bayespca.lowrank.observing import observed
from bayespca.missing.dense import step as vb
from bayespca.missing.dense.state import DenseState

from .sweeping import swept


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request):
    if request.param == "array_api_strict":
        return array_api_strict
    try:
        return importlib.import_module("torch")
    except ImportError:
        pytest.skip("torch is not installed: its wheels are too large to ask of every tester")


def with_holes(n, p, share=0.3, alike=1, seed=0):
    """A matrix in which `alike` rows share each pattern of holes."""
    rng = np.random.default_rng(seed)
    holes = np.repeat(rng.random((-(-n // alike), p)) < share, alike, axis=0)[:n]
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + rng.normal(size=(n, p)) + 3
    return np.where(holes[rng.permutation(n)], np.nan, X)


def some_columns(p, H, *, integrated=True):
    rng = np.random.default_rng(0)
    factors = 0.1 * rng.normal(size=(p, H + 1, H + 1))
    b_cov = factors @ np.swapaxes(factors, 1, 2)
    prior_a = rng.uniform(0.5, 2, H)
    return rows.Columns(rng.normal(size=(p, H + 1)), b_cov, prior_a, 0.4, integrated)


def same_place(array, like):
    return type(array) is type(like) and array.device == like.device


# --- the pass over rows ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("alike", [1, 4])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_same_record(xp, alike, scale, dtype):
    Y = with_holes(90, 8, alike=alike).astype(dtype)
    X = xp.asarray(Y)
    here, there = (observed(A, center=True, scale=scale) for A in (Y, X))
    assert same_place(there.values, X)
    assert same_place(there.patterns, X)
    assert there.values.dtype == xp.float64
    assert there.shape == here.shape
    for name in ("values", "patterns", "mask"):
        np.testing.assert_allclose(to_numpy(getattr(there, name)), getattr(here, name), atol=1e-12)
    for name in ("starts", "order", "location", "unit", "column_counts", "totals", "squares"):
        assert isinstance(getattr(there, name), np.ndarray)
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), atol=1e-10)
    np.testing.assert_allclose(to_numpy(there.in_order(there.mask)), ~np.isnan(Y))


@pytest.mark.parametrize("integrated", [True, False])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize(("alike", "H"), [(1, 3), (3, 3), (20, 3), (90, 3), (1, 0), (3, 0)])
@pytest.mark.parametrize("p", [6, 40])
@pytest.mark.parametrize("shared", [True, False])
def test_the_same_sums(monkeypatch, xp, alike, H, p, root, integrated, shared):
    """Blocks cut through patterns, and some have more patterns than columns.

    Torch tensors are also tested as if they did not share memory with NumPy.
    """
    if not shared:
        monkeypatch.setattr(rows, "_shared", lambda data: data)
    monkeypatch.setattr(rows, "DEVICE_BLOCK_BYTES", 8 * 50 * (2 * p + 4 * (H + 1) ** 2))
    monkeypatch.setattr(rows, "BLOCK", 1)
    Y = with_holes(180, p, alike=alike)
    here, there = (observed(A, center=True, scale=False) for A in (Y, xp.asarray(Y)))
    assert len(list(rows.device_blocks(there, H))) > 3
    columns = some_columns(p, H, integrated=integrated)
    placed = replace(columns, b=xp.asarray(columns.b), b_cov=xp.asarray(columns.b_cov))
    divisor = np.linspace(0.5, 2, p) if root else None
    mine = rows.sums_over_rows(here, columns, share=0.9, root=divisor)
    for given in (columns, placed):
        theirs = rows.sums_over_rows(there, given, share=0.9, root=divisor)
        for name in ("second", "cross", "everything", "log_det"):
            found, wanted = getattr(theirs, name), getattr(mine, name)
            if name != "log_det":
                assert same_place(found, there.values) or (xp is not array_api_strict and shared)
            np.testing.assert_allclose(
                to_numpy(found) if name != "log_det" else found,
                wanted,
                rtol=1e-10,
                atol=1e-10 * max(1, np.max(np.abs(wanted))),
            )
    a, cov = rows.latent(there, columns)
    assert same_place(a, there.values)
    for found, wanted in zip((a, cov), rows.latent(here, columns), strict=True):
        np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-10)
    if H:
        wanted = rows.log_precision_along(here, columns, np.ones(H))
        for given in (columns, placed):
            along = rows.log_precision_along(there, given, np.ones(H))
            assert float(along) == pytest.approx(float(wanted), rel=1e-12)


def test_sums_over_the_mask(xp):
    Y = with_holes(60, 8, alike=4)
    here, there = (observed(A, center=True, scale=False) for A in (Y, xp.asarray(Y)))
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=8), rng.normal(size=len(here.patterns))
    np.testing.assert_allclose(there.over_columns(x), here.over_columns(x))
    np.testing.assert_allclose(there.over_patterns(w), here.over_patterns(w))


def test_packed_matrices(xp):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5, 4, 7))
    matrices = factors @ np.swapaxes(factors, 1, 2)
    there = xp.asarray(matrices)
    np.testing.assert_array_equal(to_numpy(packed(there)), matrices[:, *np.triu_indices(4)])
    np.testing.assert_array_equal(to_numpy(unpacked(packed(there), 4)), matrices)
    apart = np.concatenate([matrices[:, *np.triu_indices(3)], matrices[:, :3, 3]], axis=1)
    np.testing.assert_array_equal(to_numpy(packed_beside_last(there)), apart)
    np.testing.assert_allclose(to_numpy(times(there, there[0, 0, :])), matrices @ matrices[0, 0])
    change = there[1, :2, :]
    wanted = matrices[1, :2] @ matrices @ matrices[1, :2].T
    np.testing.assert_allclose(to_numpy(turned(there, change)), wanted, rtol=1e-10)
    inverse, log_dets = inverses(there)
    np.testing.assert_allclose(to_numpy(inverse), np.linalg.inv(matrices), atol=1e-9)
    np.testing.assert_allclose(to_numpy(log_dets), -np.linalg.slogdet(matrices)[1])


# --- reading a posterior -----------------------------------------------------------------------


def some_posterior(p, H, like):
    rng = np.random.default_rng(1)
    return read.from_columns(
        some_columns(p, H),
        location=rng.normal(size=p),
        scale=rng.uniform(0.5, 2, p),
        unit=1.7,
        like=like,
    )


@pytest.fixture(params=[(1, 3, "float64"), (7, 3, "float64"), (1, 0, "float64"), (7, 3, "float32")])
def case(request, xp):
    """Rows and a posterior, in NumPy and in another library."""
    alike, H, dtype = request.param
    Y = with_holes(60, 9, alike=alike).astype(dtype)
    Y[3], Y[4] = np.nan, 1.0
    X = xp.asarray(Y)
    return Y, some_posterior(9, H, Y), X, some_posterior(9, H, X)


def agree(found, wanted, X):
    assert same_place(found, X)
    assert str(found.dtype).rpartition(".")[2] == str(wanted.dtype)
    tol = 1e-10 if wanted.dtype == np.float64 else 1e-5
    size = np.abs(wanted).max(initial=1e-300)
    np.testing.assert_allclose(to_numpy(found), wanted, rtol=tol, atol=tol * size)


@pytest.mark.parametrize("name", ["scores", "project", "log_density"])
def test_of_rows(case, name):
    Y, here, X, there = case
    agree(getattr(read, name)(there, X), getattr(read, name)(here, Y), X)


@pytest.mark.parametrize("noise", [True, False])
def test_filled_rows(case, noise):
    Y, here, X, there = case
    for found, wanted in zip(
        imputing.impute(there, X, noise=noise), imputing.impute(here, Y, noise=noise), strict=True
    ):
        agree(found, wanted, X)
    for found, wanted in zip(
        read.scores_and_std(there, X), read.scores_and_std(here, Y), strict=True
    ):
        agree(found, wanted, X)


def test_draws(case):
    """Signs of eigenvectors are arbitrary, so draws differ; their distribution does not."""
    Y, here, X, there = case
    found = imputing.sample_imputation(there, X, np.random.default_rng(0))
    wanted = imputing.sample_imputation(here, Y, np.random.default_rng(0))
    assert same_place(found, X)
    assert found.dtype == X.dtype
    seen = ~np.isnan(Y)
    np.testing.assert_array_equal(to_numpy(found)[seen], Y[seen])
    assert np.isfinite(to_numpy(found)).all()
    assert to_numpy(found)[~seen].std() == pytest.approx(wanted[~seen].std(), rel=0.3)


@pytest.mark.parametrize("name", ["latent_std", "covariance", "precision"])
def test_without_rows(case, name):
    _, here, X, there = case
    agree(getattr(read, name)(there), getattr(read, name)(here), X)


def test_rows_from_scores_and_new_ones(case):
    Y, here, X, there = case
    T = read.scores(here, Y)
    agree(read.reconstruct(there, to_namespace(T, X)), read.reconstruct(here, T), X)
    drawn = [read.sample(who, 5, np.random.default_rng(0)) for who in (there, here)]
    agree(drawn[0], drawn[1], X)


def test_scores_of_another_type(xp):
    X = xp.asarray(with_holes(20, 9))
    there = some_posterior(9, 3, X)
    T = read.scores(there, X)
    short = read.reconstruct(there, to_namespace(to_numpy(T), X, dtype=xp.float32))
    assert short.dtype == xp.float64
    np.testing.assert_allclose(to_numpy(short), to_numpy(read.reconstruct(there, T)), atol=1e-4)


def test_a_posterior_on_the_host_reads_rows_elsewhere(case):
    """As after loading a model from a file."""
    Y, here, X, _ = case
    agree(read.scores(here, X), read.scores(here, Y), X)
    agree(read.log_density(here, X), read.log_density(here, Y), X)
    agree(imputing.impute(here, X)[0], imputing.impute(here, Y)[0], X)


def test_a_posterior_of_complete_data(xp):
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(9, 3)))[0].T
    Y = with_holes(40, 9)

    def record(like):
        return from_directions(
            mean=to_namespace(np.full(9, 3.0), like),
            scale=to_namespace(np.ones(9), like),
            components=to_namespace(W, like),
            ridge=np.full(3, 0.1),
            loading_variance=np.full((9, 3), 0.01),
            latent_variance=np.array([3.0, 2.0, 1.0]),
            noise_variance=1.0,
        )

    X = xp.asarray(Y)
    agree(read.scores(record(X), X), read.scores(record(Y), Y), X)
    agree(read.log_density(record(X), X), read.log_density(record(Y), Y), X)


# --- sweeps ------------------------------------------------------------------------------------

SWEEPS = {
    "evb": {},
    "evb, one mean less": {"center": False},
    "evb of each feature": {"noise": PER_FEATURE},
    "evb of each sample": {"noise": PER_SAMPLE},
    "evb of both": {"noise": BOTH},
    "epb": {"method": "epb"},
    "emap": {"method": "emap"},
    "vb": {"method": "vb", "prior_variance": 2.0},
    "ml": {"method": "ml", "n_components": 2},
}


def _same_signs(b, like):
    """Columns with the signs of `like`: a direction's sign is arbitrary and set by rounding."""
    b = to_numpy(b)
    return b * np.where((b * like).sum(axis=0) < 0, -1.0, 1.0), like


@pytest.mark.parametrize("options", SWEEPS.values(), ids=SWEEPS)
@pytest.mark.parametrize("alike", [1, 4])
def test_sweeps_are_the_same_and_stay_there(options, alike):
    Y = with_holes(120, 8, alike=alike)
    here, _, _ = swept(Y, max_iter=60, tol=1e-10, **options)
    there, _, data = swept(array_api_strict.asarray(Y), max_iter=60, tol=1e-10, **options)
    assert same_place(there.state.b, data.values)
    assert same_place(there.state.b_cov, data.values)
    assert there.state.rank == here.state.rank
    assert len(there.trace) == len(here.trace)
    # The free energy is flat around the best prior of equal noise.
    flat = 1e2 if "noise" in options else 1.0
    np.testing.assert_allclose(there.trace.free_energy, here.trace.free_energy, rtol=1e-12 * flat)
    if "noise" not in options:
        np.testing.assert_allclose(*_same_signs(there.state.b, here.state.b), atol=1e-10)


def test_a_run_that_was_broken_off_goes_on(tmp_path):
    """The state comes back from the file as NumPy arrays and moves to the data's device."""
    Y = array_api_strict.asarray(with_holes(120, 8))
    whole, model, data = swept(Y, max_iter=12, tol=0.0)
    half, _, _ = swept(Y, max_iter=5, tol=0.0)
    kept = Checkpoint(tmp_path / "run", DenseState, fingerprint="", every=0.0)
    kept.keep(half)
    found = kept.find()
    assert isinstance(found.state.b, np.ndarray)
    state = found.state
    for _ in range(7):
        state, info = vb.step(state, data, model)
    assert same_place(state.b, data.values)
    assert info.free_energy == pytest.approx(whole.trace.free_energy[-1], rel=1e-12)

"""Noise of rows and columns on Dask: the same answers as in memory, however rows are chunked."""

from __future__ import annotations

from functools import lru_cache

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from bayespca import BayesianPCA
from bayespca.datasets import noisy
from bayespca.linear.scaled import cells
from bayespca.noise import complete, residuals

N, P = 240, 12
CHUNKS = {
    "one": (N, P),
    "unequal": ((1, 0, 119, 90, 30), P),
    "both axes": (50, 5),
}

QUIET = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@lru_cache
def made(kind, n=N, p=P, seed=0):
    X = noisy(kind, n, p, 3, random_state=seed).X + 5
    X.flags.writeable = False
    return X


def lazy(X, chunks="unequal"):
    return da.from_array(X, chunks=CHUNKS[chunks])


def same(ours, theirs, tol=1e-7):
    """Assert that two fits agree in everything that is identified."""
    assert ours.n_components_ == theirs.n_components_
    assert ours.noise_ == theirs.noise_
    assert ours.n_samples_ == theirs.n_samples_
    assert ours.n_iter_ == theirs.n_iter_
    for name in (
        *("free_energy_", "noise_variance_", "singular_values_", "mean_"),
        *("feature_noise_variance_", "sample_noise_variance_", "degrees_of_freedom_"),
    ):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tol, err_msg=name)
    if theirs.outlier_probability_ is not None:
        assert_allclose(ours.outlier_probability_, theirs.outlier_probability_, atol=tol)
    assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=100 * tol)


ROWS = ["per-sample", "student", "both"]
OPTIONS = [
    {},
    {"center": False},
    {"scale": True},
    {"n_components": 2},
    {"method": "vb", "prior_variance": 4.0},
]


# Without a prior, the variances of rows and columns would run away together.
CASES = [(noise, options) for noise in ROWS for options in OPTIONS]
CASES += [("per-sample", {"method": "ml", "n_components": 3})]


@QUIET
@pytest.mark.parametrize(("noise", "options"), CASES, ids=str)
def test_noise_of_rows_is_that_of_data_in_memory(noise, options):
    X = made("both")
    found = BayesianPCA(noise=noise, **options).fit(lazy(X))
    assert found.engine_ == "dask"
    same(found, BayesianPCA(noise=noise, **options).fit(X))
    assert_allclose(found.transform(lazy(X)).compute(), found.transform(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", [*ROWS, "per-feature"])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_however_rows_are_cut_up(noise, chunks):
    X = made("rows")
    same(BayesianPCA(noise=noise).fit(lazy(X, chunks)), BayesianPCA(noise=noise).fit(X))


@QUIET
@pytest.mark.parametrize("noise", ["per-sample", "both"])
def test_a_sample_of_the_rows_is_brought_here_to_begin_with(noise, monkeypatch):
    monkeypatch.setattr(cells, "SAMPLE", 50 * P)
    monkeypatch.setattr(cells, "FEWEST", 10)
    X = made("both")
    same(BayesianPCA(noise=noise).fit(lazy(X)), BayesianPCA(noise=noise).fit(X))


@pytest.mark.parametrize("noise", ["both", "per-feature"])
def test_more_columns_than_rows_are_gathered(noise):
    X = np.ascontiguousarray(made("both", 60, 100).T[:50])
    found = BayesianPCA(noise=noise).fit(da.from_array(X, chunks=(20, 25)))
    same(found, BayesianPCA(noise=noise).fit(X))


def test_tables_and_heights_that_are_not_known():
    X = made("both")
    theirs = BayesianPCA(noise="both").fit(X)
    D = da.from_array(X, chunks=(70, P))
    same(BayesianPCA(noise="both").fit(D[D[:, 0] > -np.inf]), theirs)
    names = [f"c{j}" for j in range(P)]
    table = dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=4)
    same(BayesianPCA(noise="both").fit(table), theirs)


@pytest.mark.parametrize("factor", [1e-120, 1e120])
def test_numbers_of_any_size(factor):
    X = made("both")
    theirs, ours = (BayesianPCA(noise="both").fit(x) for x in (X, lazy(X * factor)))
    assert ours.n_components_ == theirs.n_components_
    scaled = ours.sample_noise_variance_ / factor**2
    assert_allclose(scaled, theirs.sample_noise_variance_, rtol=1e-7)


@pytest.mark.parametrize("noise", ["per-feature", "both"])
def test_rounding_is_noise_there_too(noise):
    X = np.round(made("both"))
    X[:, 3] = 2.0
    same(BayesianPCA(noise=noise).fit(lazy(X)), BayesianPCA(noise=noise).fit(X))


def test_single_precision_is_summed_in_double():
    X = made("both").astype(np.float32)
    found = BayesianPCA(noise="both").fit(lazy(X))
    assert found.components_.dtype == np.float32
    theirs = BayesianPCA(noise="both").fit(X.astype(np.float64))
    assert found.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-12)


# --- which noise -------------------------------------------------------------------------------

CHOSEN = {
    "white": "isotropic",
    "columns": "per-feature",
    "rows": "per-sample",
    "both": "both",
    "ar": "autoregressive",
}


@pytest.mark.parametrize("kind", CHOSEN)
@pytest.mark.parametrize("options", [{}, {"n_components": 2}], ids=str)
def test_the_noise_is_chosen(kind, options):
    X = made(kind)
    found, theirs = (BayesianPCA(**options).fit(x) for x in (lazy(X), X))
    assert theirs.noise_ == CHOSEN[kind]
    same(found, theirs)
    assert found.status_ == theirs.status_
    assert found.noise_evidence_ == pytest.approx(theirs.noise_evidence_, abs=1e-6)


@pytest.mark.parametrize("kind", CHOSEN)
def test_some_rows_choose_for_many(kind, monkeypatch):
    """The result equals that in memory; the fit continues from the rows that chose the noise."""
    few_are_many(monkeypatch)
    X = made(kind)
    found, theirs = (BayesianPCA().fit(x) for x in (lazy(X), X))
    assert theirs.noise_ == CHOSEN[kind]
    same(found, theirs)
    assert found.engine_ == "dask"
    assert found.noise_evidence_ == pytest.approx(theirs.noise_evidence_, abs=1e-6)


def few_are_many(monkeypatch, rows=120):
    monkeypatch.setattr(complete, "MANY_CELLS", 100)
    monkeypatch.setattr(residuals, "CELLS", rows * P)
    monkeypatch.setattr(residuals, "FEWEST", rows)


def test_heights_that_are_not_known_choose_too(monkeypatch):
    few_are_many(monkeypatch)
    D = da.from_array(made("both"), chunks=(70, P))
    found = BayesianPCA().fit(D[D[:, 0] > -np.inf])
    theirs = BayesianPCA(noise="both").fit(made("both"))
    assert (found.noise_, found.n_components_) == ("both", theirs.n_components_)
    assert found.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-4)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", ["white", "both"])
def test_how_often_the_data_are_read(kind, many, monkeypatch):
    """Once for the fit with equal noise and once to examine rows; many rows with their own noise
    are read twice more, to be summed and to be kept on the workers.
    """
    if many:
        few_are_many(monkeypatch)
    reads, X = [0, 0], made(kind)

    def read(i):
        reads[i] += 1
        return X[120 * i : 120 * (i + 1)]

    parts = [da.from_delayed(dask.delayed(read)(i), (120, P), X.dtype) for i in range(2)]
    BayesianPCA().fit(da.concatenate(parts))
    times = 4 if kind == "both" and many else 2
    assert reads == [times, times]


@pytest.mark.parametrize("many", [False, True])
def test_words_where_cells_have_errors_of_their_own(many, monkeypatch):
    if many:
        few_are_many(monkeypatch)
    # Noise of rows explains most of these errors; with 120 rows, this seed leaves 12 nats.
    X = made("gross", seed=3)
    found = BayesianPCA().fit(lazy(X))
    assert BayesianPCA().fit(X).noise_ == "student-cells"
    assert "noise='student-cells' would have at least" in str(found.status_)
    assert "X.compute()" in str(found.status_)
    assert "student-cells" not in str(BayesianPCA().fit(lazy(made("white"))).status_)


@QUIET
def test_words_where_there_are_too_many_columns(monkeypatch):
    few_are_many(monkeypatch)
    monkeypatch.setattr(complete, "MOST_COLUMNS", P - 1)
    found = BayesianPCA().fit(lazy(made("both")))
    assert found.noise_ == "isotropic"
    assert "noise='both' would have at least" in str(found.status_)
    assert "fit fewer columns" in str(found.status_)


@pytest.mark.parametrize("noise", ["isotropic", "per-feature", "per-sample"])
def test_words_where_another_noise_was_asked_for(noise):
    X = made("both", 300, 12)
    found, theirs = (BayesianPCA(noise=noise).fit(x) for x in (da.from_array(X, chunks=70), X))
    assert "noise='both'" in str(theirs.status_)
    assert found.status_ == theirs.status_


# --- holes -------------------------------------------------------------------------------------


@lru_cache
def with_holes(kind, n=N, p=P, *, whole=False):
    X = np.round(made(kind, n, p)) if whole else made(kind, n, p).copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X.flags.writeable = False
    return X


def words(model):
    """Advice without its nats, which come from a draw that depends on the signs of components."""
    return [(one.code, one.text.partition(", by ")[0]) for one in model.status_.advice]


@QUIET
@pytest.mark.parametrize("noise", ["isotropic", "per-feature", "per-sample", "both"])
@pytest.mark.parametrize("whole", [False, True])
def test_noise_with_holes_is_that_of_data_in_memory(noise, whole):
    X = with_holes("both", whole=whole)
    # A given number is found in another way in memory, to the tolerance of sweeps.
    found, theirs = (BayesianPCA(n_components="evb", noise=noise).fit(x) for x in (lazy(X), X))
    same(found, theirs)
    assert words(found) == words(theirs)
    assert found.engine_ == "holes"


MANY = [("white", True), ("rows", True), ("both", True)]


@pytest.mark.parametrize(
    ("kind", "many"), [*MANY, *((kind, False) for kind in ("white", "columns", "rows", "both"))]
)
def test_the_noise_is_chosen_with_holes(kind, many, monkeypatch):
    X = with_holes(kind)
    theirs = BayesianPCA().fit(X)
    if many:
        few_are_many(monkeypatch)
    found = BayesianPCA().fit(lazy(X))
    assert theirs.noise_ == CHOSEN[kind]
    same(found, theirs)
    if not many:
        assert words(found) == words(theirs)
        assert found.noise_evidence_ == pytest.approx(theirs.noise_evidence_, abs=1e-4)


def test_words_where_cells_have_errors_beside_holes():
    X = with_holes("gross")
    found = BayesianPCA().fit(lazy(X))
    assert BayesianPCA().fit(X).noise_ == "student-cells"
    assert "noise='student-cells' would have at least" in str(found.status_)


@pytest.mark.parametrize("with_holes", [False, True])
def test_cells_need_memory(with_holes):
    X = made("both").copy()
    X[0, 0] = np.nan if with_holes else 0.0
    with pytest.raises(ValueError, match=r"student-cells.*in memory.*'student'.*X\.compute\(\)"):
        BayesianPCA(noise="student-cells").fit(lazy(X))

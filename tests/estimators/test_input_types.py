"""Objects of every kind that people pass as X: unreadable ones get a clear error at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from bayespca import (
    GPLVM,
    BayesianPCA,
    BayesianPCAImputer,
    BayesianTucker,
    BinaryPCA,
    GeneralizedPCA,
    GibbsPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
    evbmf,
    rank_report,
)

X = np.random.default_rng(0).normal(size=(30, 4))
ESTIMATORS = [
    BayesianPCA(),
    BayesianPCAImputer(),
    BayesianTucker(),
    BinaryPCA(binarize=0.0),
    GPLVM(2, n_inducing=8, max_iter=2),
    GeneralizedPCA(),
    GibbsPCA(n_chains=1, n_draws=10, n_warmup=0),
    PCAMixture(2),
    VariationalPCA(),
]


def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def anndata():
    module = pytest.importorskip("anndata", reason="anndata is not installed")
    return module.AnnData(X)


OTHERS = {
    "AnnData": (anndata, r"X is an AnnData: call bayespca\.scverse\.pca\(adata\), or give its"),
    "module": (lambda: torch().nn.Linear(3, 4), "X is a Linear, not a table of numbers"),
    "loader": (lambda: torch().utils.data.DataLoader(X), "X is a DataLoader, not a table"),
    "dict": (lambda: {"a": [1, 2]}, "X is a dict, not a table of numbers"),
    "nothing": (lambda: None, "X is None, not a table of numbers"),
    "function": (lambda: anndata, "X is a function, not a table of numbers"),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_what_is_no_table_is_told(estimator, kind):
    made, match = OTHERS[kind]
    with pytest.raises(TypeError, match=match):
        clone(estimator).fit(made())


@pytest.mark.parametrize("function", [evbmf, rank_report])
def test_functions_say_the_same(function):
    with pytest.raises(TypeError, match="X is a dict, not a table of numbers"):
        function({"a": [1, 2]})


def test_new_data_are_told_of_as_well():
    model = BayesianPCA().fit(X)
    with pytest.raises(TypeError, match="X is a Linear, not a table"):
        model.transform(torch().nn.Linear(3, 4))


def frame(library):
    columns = {f"x{j}": X[:, j] for j in range(4)}
    if library is pd:
        dates = {"when": pd.date_range("2020", periods=30)}
        return pd.DataFrame(columns | {"kind": ["a", "b"] * 15} | dates)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 30), eager=True)
    return pl.DataFrame(columns | {"kind": ["a", "b"] * 15, "when": days})


# GeneralizedPCA has likelihoods for text, and error messages of its own for dates.
NUMBERS_ALONE = [one for one in ESTIMATORS if not isinstance(one, GeneralizedPCA)]


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("estimator", NUMBERS_ALONE, ids=repr)
def test_columns_that_are_no_numbers_are_named(estimator, library):
    match = r"columns that are not numbers: 'kind' \(text\), 'when' \(dates\)\. Leave them out"
    with pytest.raises(ValueError, match=match):
        clone(estimator).fit(frame(library))


def test_dates_alone_are_not_nanoseconds():
    with pytest.raises(ValueError, match=r"'when' \(dates\)"):
        BayesianPCA().fit(frame(pd)[["x0", "x1", "when"]])


def test_numbers_of_any_type_are_numbers():
    """Objects, categories, booleans and nullable integers count as numbers if NumPy reads them."""
    table = pd.DataFrame(X, columns=list("abcd"))
    table["object"] = table["a"].astype(object)
    table["whole"] = pd.array([1, None] * 15, dtype="Int64")
    table["flag"] = [True, False] * 15
    table["kind"] = pd.Categorical([1, 2, 5] * 10)
    assert BayesianPCA().fit(table).n_features_in_ == 8


def test_an_iterator_is_blocks_of_rows():
    blocks = np.array_split(X, 3)
    model, whole = (BayesianPCA(noise="isotropic").fit(Z) for Z in (iter(blocks), X))
    assert model.noise_variance_ == pytest.approx(whole.noise_variance_)
    with pytest.raises(ValueError, match="block 1 has 3 columns, but block 0 has 4"):
        BayesianPCA().fit(iter([X, X[:, :3]]))
    with pytest.raises(ValueError, match=r"block 0 has 1 dimension.* Put single rows together"):
        BayesianPCA().fit(iter(X))
    with pytest.raises(ValueError, match="needs all rows at once: pass an array"):
        GibbsPCA().fit(iter(blocks))


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("estimator", NUMBERS_ALONE, ids=repr)
def test_a_list_of_tables_is_not_taken_for_blocks(estimator, kind):
    """They may be blocks, views, slices or two data sets; the user must say which."""
    match = rf"X is a {kind.__name__} of 2 tables: put them below each other with np\.concatenate"
    for tables in ([X, X], [X, X[:, :3]], [pd.DataFrame(X), pd.DataFrame(X)]):
        with pytest.raises(TypeError, match=match):
            clone(estimator).fit(kind(tables))


NO_NUMBERS = {
    "ragged": ([[1.0, 2.0, 3.0], [1.0, 2.0]], "rows of different lengths: 3 in place 0, 2 in pl"),
    "ragged arrays": ([X[0], X[0][:2]], "rows of different lengths: 4 in place 0, 2 in place 1"),
    "ragged objects": (np.array([[1], [1, 2]], dtype=object), "rows of different lengths: 1 in"),
    "a bare number": ([[1.0, 2.0], 3.0], "lengths: 2 in place 0, a bare number in place 1"),
    "mixed": ([X, X[0]], r"parts of different shapes: \(30, 4\) in place 0, \(4,\) in place 1"),
    "text": (np.array([["1", "2"], ["3", "d"]]), "X has 'd' in row 1, column 1 .* not a number"),
    "bytes": (np.array([[b"1", b"b"]]), "X has b'b' in row 0, column 1 .* not a number"),
    "a cell": ([[1.0, "x"], [2.0, 3.0]], "X has 'x' in row 0, column 1 .* not a number"),
    "an object": (np.array([[1, "a" * 99]], object), "X has 'a{39} in row 0, column 1"),
    "dates": (X.astype("M8[s]"), "X is an array of dates or durations: turn them into numbers"),
    "durations": (X.astype("m8[s]"), "X is an array of dates or durations: turn them into num"),
    "records": (np.array([(1, 2.0)], dtype="i4,f8"), "X is a structured array: give numpy.lib"),
    "dicts": ([{"a": 1}, {"a": 2}], r"X is a list of dicts: give pandas\.DataFrame\(X\)"),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("estimator", [*NUMBERS_ALONE, MatrixFactorization()], ids=repr)
def test_what_is_not_a_matrix_of_numbers_is_told_in_a_sentence(estimator, kind):
    given, match = NO_NUMBERS[kind]
    with pytest.raises((TypeError, ValueError), match=match):
        clone(estimator).fit(given)


def test_new_rows_that_are_not_numbers_are_told_in_a_sentence():
    model = BayesianPCA().fit(X)
    with pytest.raises(ValueError, match="rows of different lengths"):
        model.transform([[1.0, 2.0, 3.0, 4.0], [1.0]])
    with pytest.raises(ValueError, match="X has 'a' in row 0, column 3"):
        model.score([[1.0, 2.0, 3.0, "a"]])
    with pytest.raises(ValueError, match="rows of different lengths"):
        evbmf([[1.0, 2.0], [1.0]])


def test_more_axes_than_a_table_has():
    with pytest.raises(
        ValueError, match=r"X has 3 axes, of shape \(2, 3, 4\), and a table has two"
    ):
        BayesianPCA().fit(np.ones((2, 3, 4)))


def test_paths_for_estimators_that_read_no_files(tmp_path):
    with pytest.raises(TypeError, match="this estimator does not read files: load the table"):
        PCAMixture(2).fit(tmp_path / "x.csv")

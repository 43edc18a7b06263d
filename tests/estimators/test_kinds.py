"""Objects of every kind that people pass as X: what cannot be read gets a sentence at once."""

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
    "AnnData": (anndata, r"X is an AnnData: give its matrix, adata\.X"),
    "module": (lambda: torch().nn.Linear(3, 4), "X is a Linear, which is no table of numbers"),
    "loader": (lambda: torch().utils.data.DataLoader(X), "X is a DataLoader, which is no table"),
    "dict": (lambda: {"a": [1, 2]}, "X is a dict, which is no table of numbers"),
    "nothing": (lambda: None, "X is None, which is no table of numbers"),
    "function": (lambda: anndata, "X is a function, which is no table of numbers"),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_what_is_no_table_is_told(estimator, kind):
    made, match = OTHERS[kind]
    with pytest.raises(TypeError, match=match):
        clone(estimator).fit(made())


@pytest.mark.parametrize("function", [evbmf, rank_report])
def test_functions_say_the_same(function):
    with pytest.raises(TypeError, match="X is a dict, which is no table of numbers"):
        function({"a": [1, 2]})


def test_new_data_are_told_of_as_well():
    model = BayesianPCA().fit(X)
    with pytest.raises(TypeError, match="X is a Linear, which is no table"):
        model.transform(torch().nn.Linear(3, 4))


def frame(library):
    columns = {f"x{j}": X[:, j] for j in range(4)}
    if library is pd:
        dates = {"when": pd.date_range("2020", periods=30)}
        return pd.DataFrame(columns | {"kind": ["a", "b"] * 15} | dates)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 30), eager=True)
    return pl.DataFrame(columns | {"kind": ["a", "b"] * 15, "when": days})


# GeneralizedPCA has likelihoods for texts, and sentences of its own for dates.
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
    """Objects, categories, booleans, whole numbers with holes: what NumPy takes for numbers."""
    table = pd.DataFrame(X, columns=list("abcd"))
    table["object"] = table["a"].astype(object)
    table["whole"] = pd.array([1, None] * 15, dtype="Int64")
    table["flag"] = [True, False] * 15
    table["kind"] = pd.Categorical([1, 2, 5] * 10)
    assert BayesianPCA().fit(table).n_features_in_ == 8


def test_a_list_of_arrays_is_blocks_of_rows():
    blocks = np.array_split(X, 3)
    model, whole = (BayesianPCA(noise="isotropic").fit(Z) for Z in (blocks, X))
    assert model.noise_variance_ == pytest.approx(whole.noise_variance_)
    with pytest.raises(ValueError, match="block 1 has 3 columns, but block 0 has 4"):
        BayesianPCA().fit([X, X[:, :3]])
    with pytest.raises(TypeError, match=r"a list of 3 arrays: put them below each other"):
        GibbsPCA().fit(blocks)


def test_paths_for_estimators_that_read_no_files(tmp_path):
    with pytest.raises(TypeError, match="this estimator reads no files: give the table in it"):
        PCAMixture(2).fit(tmp_path / "x.csv")

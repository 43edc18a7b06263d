"""`MatrixFactorization`: predictions, ids of every kind, and clear errors for bad input."""

from __future__ import annotations

import copy
import datetime
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from bayespca import MatrixFactorization, inference, load
from bayespca.estimators import _identifiers, _validation
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model

METHODS = ["evb", "epb", "emap"]


def simulated(n=45, m=30, rank=2, share=0.6, *, noise=0.3, seed=0):
    """A low-rank matrix with biases and noise, and the indices of its rated cells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 3
    X += 0.7 * rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=m) + noise * rng.normal(size=(n, m))
    i, j = np.nonzero(rng.random(X.shape) < share)
    return X, i, j


X, I, J = simulated()
OTHERS = np.setdiff1d(np.arange(X.size), I * X.shape[1] + J)


@pytest.fixture(scope="module")
def fitted():
    return MatrixFactorization().fit_ratings(I, J, X[I, J])


def predictions(model):
    return model.predict(model.users_[:, None], model.items_)


# --- the model ---------------------------------------------------------------------------------


def test_it_finds_rank_noise_and_what_was_not_seen(fitted):
    assert fitted.n_components_ == 2
    assert fitted.noise_variance_ == pytest.approx(0.09, rel=0.15)
    i, j = np.divmod(OTHERS, X.shape[1])
    mean, std = fitted.predict(i, j, return_std=True)
    errors = X[i, j] - mean
    assert np.sqrt(np.mean(errors**2)) < 0.36
    assert np.mean(np.abs(errors) < 1.96 * std) == pytest.approx(0.95, abs=0.03)
    assert fitted.score(np.stack([i, j], axis=1), X[i, j]) == -np.sqrt(np.mean(errors**2))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_factors_and_biases_make_the_predictions(method, biases, dtype):
    model = MatrixFactorization(method, n_components=2, biases=biases, dtype=dtype).fit_ratings(
        I, J, X[I, J]
    )
    expected = model.user_factors_ @ model.item_factors_.T + model.mean_
    assert model.user_factors_.dtype == model.item_factors_std_.dtype == dtype
    assert hasattr(model, "user_biases_") == biases
    if biases:
        expected = expected + model.user_biases_[:, None] + model.item_biases_
    else:
        assert model.mean_ == 0
    tol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(predictions(model), expected, rtol=tol, atol=tol)
    integrated = {"evb": [True, True], "emap": [False, False]}
    if method in integrated:
        stds = [model.user_factors_std_, model.item_factors_std_]
        assert [bool((std > 0).all()) for std in stds] == integrated[method]


def test_it_is_the_model_of_ratings(fitted):
    data = sorted_both_ways(I.astype(np.int32), J.astype(np.int32), X[I, J], X.shape, center=True)
    direct = inference.fit(ratings_model(data), data, fitted_looping())
    assert fitted.free_energy_ == pytest.approx(direct.free_energy, rel=1e-12)
    assert fitted.noise_variance_ == pytest.approx(direct.noise_variance, rel=1e-12)
    assert fitted.n_iter_ == len(fitted.trace_) == len(direct.trace)


def fitted_looping():
    return _validation.looping(MatrixFactorization(), None)


def test_epb_takes_the_noise_of_evb(fitted):
    model = MatrixFactorization("epb").fit_ratings(I, J, X[I, J])
    assert model.noise_variance_ == pytest.approx(fitted.noise_variance_)
    assert "EVB" in str(model.status_).upper()


def test_units_are_those_of_the_ratings(fitted):
    model = MatrixFactorization().fit_ratings(I, J, 10 * X[I, J] + 5)
    np.testing.assert_allclose(predictions(model), 10 * predictions(fitted) + 5, rtol=1e-6)
    assert model.noise_variance_ == pytest.approx(100 * fitted.noise_variance_, rel=1e-6)


def test_a_given_noise_and_rank_are_kept():
    model = MatrixFactorization(noise_variance=0.2, n_components=1).fit_ratings(I, J, X[I, J])
    assert model.noise_variance_ == pytest.approx(0.2)
    assert model.n_components_ == 1


def test_random_starts_follow_the_seed():
    options = {"init": "random", "n_components": 2, "n_init": 2}
    first, again, other = (
        MatrixFactorization(**options, random_state=seed).fit_ratings(I, J, X[I, J])
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(predictions(first), predictions(again))
    assert not np.array_equal(predictions(first), predictions(other))


# --- kinds of input ----------------------------------------------------------------------------


def test_all_forms_of_a_matrix_are_the_same_ratings():
    fitted = MatrixFactorization(n_components=1).fit_ratings(I, J, X[I, J])
    dense = np.full(X.shape, np.nan)
    dense[I, J] = X[I, J]
    sparse = sp.coo_array((X[I, J], (I, J)), shape=X.shape)
    forms = [dense, np.asfortranarray(dense), np.ma.masked_invalid(dense), sparse, sparse.tocsc()]
    forms += [sp.csr_matrix(sparse), pd.DataFrame(dense)]
    for form in forms:
        model = MatrixFactorization(n_components=1).fit(form)
        np.testing.assert_array_equal(predictions(model), predictions(fitted))
        assert model.score(form) == pytest.approx(fitted.score(dense))


def test_a_stored_zero_is_a_rating():
    cells = ([0.0, 2.0, 4.0, 0.0], ([0, 0, 1, 2], [0, 1, 1, 0]))
    model = MatrixFactorization().fit(sp.csr_array(cells, shape=(3, 2)))
    assert model.n_ratings_ == 4
    assert model.bounds_ == (0.0, 4.0)
    assert model.seen_items_[model.seen_starts_[2] : model.seen_starts_[3]].tolist() == [0]


def test_labels_of_a_table_are_ids_in_their_order():
    table = pd.DataFrame(X[:6, :4], index=list("fedcba"), columns=[30, 10, 20, 40])
    model = MatrixFactorization().fit(table)
    assert model.users_.tolist() == list("fedcba")
    assert model.items_.tolist() == [30, 10, 20, 40]
    plain = MatrixFactorization().fit(table.to_numpy())
    assert model.predict("d", 20) == plain.predict(2, 2)
    names = MatrixFactorization().fit(pl.DataFrame({"x": [1.0, 2.0], "y": [3.0, None]}))
    assert names.items_.tolist() == ["x", "y"]
    assert names.n_ratings_ == 3
    with pytest.raises(ValueError, match=r"label 'a' twice among its users"):
        MatrixFactorization().fit(pd.DataFrame([[1.0], [2.0]], index=["a", "a"]))


NAMES = ["ann", "bob", "ann", "cy"]
COLUMNS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": pd.Series,
    "pandas string": lambda values: pd.Series(values, dtype="string"),
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "polars": pl.Series,
    "polars category": lambda values: pl.Series(values, dtype=pl.Categorical),
    "arrow": pa.array,
    "arrow chunks": lambda values: pa.chunked_array([values[:2], values[2:]]),
    "arrow dictionary": lambda values: pa.array(values).dictionary_encode(),
    "numpy": np.array,
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_every_library(kind):
    # As text or categories, items and ratings would not be numbers.
    numbers = COLUMNS["list" if "categor" in kind or "string" in kind else kind]([3, 1, 1, 3])
    ratings_ = COLUMNS["list" if "categor" in kind or "string" in kind else kind]([1, 2, 3, 4])
    model = MatrixFactorization().fit_ratings(COLUMNS[kind](NAMES), numbers, ratings_)
    expected = MatrixFactorization().fit_ratings(NAMES, [3, 1, 1, 3], [1.0, 2.0, 3.0, 4.0])
    assert model.users_.tolist() == ["ann", "bob", "cy"]
    assert model.items_.tolist() == [1, 3]
    assert model.predict("bob", 1) == expected.predict("bob", 1)


IDS = {
    "whole numbers": [5, -3, 2**60, 7],
    "beyond 64 bits": [5, 2**70, -(2**70), 7],
    "floats": [0.5, -1.0, 2.0, 1e300],
    "strings": ["b", "a", "ä", ""],
    "tuples": [("a", 1), ("a", 2), ("b", 1), ()],
    "mixed": [1, "1", (1,), 2.5],
    "flags": [True, False],
    "bytes": [b"a", b"b"],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_kind(kind):
    ids = IDS[kind]
    values = np.arange(len(ids), dtype=float)
    model = MatrixFactorization(noise_variance=1e-4, bounds=None)
    model.fit_ratings(ids * 2, ["x"] * len(ids) + ["y"] * len(ids), np.tile(values, 2))
    assert set(model.users_.tolist()) == set(ids)
    assert len(model.users_) == len(ids)
    found = [model.predict([user], "x")[0] for user in ids]
    np.testing.assert_allclose(found, values, atol=0.05)
    for user, value in zip(ids, found, strict=True):
        assert model.predict(user, "x") == value
    assert isinstance(found[0], float)


def test_ids_are_numbered_and_found_again():
    rng = np.random.default_rng(0)
    wide = rng.integers(-(2**62), 2**62, 500)
    for values in (rng.integers(-50, 50, 500), wide, wide.astype(float), wide.astype(str)):
        column = _identifiers.column(values[rng.integers(0, 500, 2000)], "users")
        ids, places = _identifiers.numbered(column, "users")
        assert (ids[places] == column).all()
        assert len(set(ids.tolist())) == ids.size
        np.testing.assert_array_equal(_identifiers.places(column, ids, "users"), places)
    mixed = np.array(["1", 2], dtype=object)
    assert _identifiers.places(np.array([1, 2]), mixed, "x").tolist() == [-1, 1]
    assert _identifiers.places(np.array([2.0, 2.5]), np.array([1, 2]), "x").tolist() == [1, -1]
    assert _identifiers.places(np.array([7]), np.array([1, 2]), "x").tolist() == [-1]


# --- predictions -------------------------------------------------------------------------------


def test_predictions_broadcast(fitted):
    one = fitted.predict(3, 4)
    assert np.ndim(one) == 0
    row = fitted.predict(3, [4, 5, 6])
    assert row.shape == (3,)
    assert row[0] == one
    grid, std = fitted.predict(np.arange(4)[:, None], np.arange(5), return_std=True)
    assert grid.shape == std.shape == (4, 5)
    assert grid[3, 4] == one
    assert fitted.predict([], []).shape == (0,)
    with pytest.raises(ValueError, match=r"one shape, or broadcast to one: got \(2,\) and \(3,\)"):
        fitted.predict([1, 2], [1, 2, 3])


def test_standard_deviations_with_noise_and_without(fitted):
    _, std = fitted.predict(I, J, return_std=True)
    mean, without = fitted.predict(I, J, return_std="mean")
    np.testing.assert_allclose(std**2 - without**2, fitted.noise_variance_, rtol=1e-9)
    np.testing.assert_array_equal(mean, fitted.predict(I, J))
    with pytest.raises(ValueError, match="return_std must be one of"):
        fitted.predict(I, J, return_std="both")


def test_who_is_not_known_has_the_answer_of_the_prior(fitted):
    with pytest.warns(UserWarning, match="not in the fit"):
        mean, std = fitted.predict(-1, -1, return_std=True)
    posterior = fitted.posterior_
    H = fitted.n_components_
    a, b = posterior.rows.prior, posterior.columns.prior
    variance = (a[:H] @ b[:H] + a[H] + b[H]) * posterior.unit**2
    assert mean == pytest.approx(fitted.mean_)
    assert std**2 == pytest.approx(variance + fitted.noise_variance_)
    _, known = fitted.predict(0, 0, return_std=True)
    assert std > 3 * known
    with pytest.warns(UserWarning, match="not in the fit"):
        by_nobody = fitted.predict(-1, 0)
    assert by_nobody == pytest.approx(fitted.mean_ + fitted.item_biases_[0])


def test_who_is_not_known_is_said(fitted):
    sentence = r"2 users were not in the fit \(-1, 999\): .* for an unknown user"
    with pytest.warns(UserWarning, match=sentence):
        fitted.predict([-1, 0, 999], 0)
    with pytest.warns(UserWarning, match=r"1 item was not in the fit \(77\)"):
        fitted.predict(0, 77)
    with pytest.warns(UserWarning, match="1 user was not in"):
        fitted.recommend(999)
    with pytest.warns(UserWarning, match="1 item was not in"):
        fitted.predict_new([1], [3.0], targets=[3, 999])
    assert fitted.known([-1, 0, 999], 0).tolist() == [False, True, False]
    assert fitted.known([0, 1], [77, 3]).tolist() == [False, True]
    assert fitted.known(0, 1) is np.True_
    with pytest.raises(ValueError, match="of type str, but the ids of the fit are numbers"):
        fitted.known("0", 1)
    with pytest.raises(ValueError, match="broadcast"):
        fitted.known([0, 1], [0, 1, 2])


def test_the_mean_rating_is_that_of_the_ratings(fitted):
    assert fitted.mean_rating_ == pytest.approx(X[I, J].mean())
    bare = MatrixFactorization(biases=False, n_components=1).fit_ratings(I, J, X[I, J])
    assert bare.mean_ == 0
    with pytest.raises(AttributeError, match="no biases"):
        _ = bare.mean_rating_


def test_recommendations_for_a_new_user_are_their_best_predictions(fitted):
    rated, stars = [3, 8, 11], [4.0, 1.0, 2.0]
    items, mean, std = fitted.recommend_new(rated, stars, n=4, return_std=True)
    every, spread = fitted.predict_new(rated, stars, return_std=True)
    left = np.setdiff1d(np.arange(fitted.items_.size), rated)
    best = left[np.argsort(-every[left], kind="stable")][:4]
    assert items.tolist() == fitted.items_[best].tolist()
    np.testing.assert_allclose(mean, every[best])
    np.testing.assert_allclose(std, spread[best])
    among_all = fitted.recommend_new(rated, stars, n=99, exclude_seen=False)
    assert among_all[0].size == fitted.items_.size


def test_bounds():
    stars = np.clip(np.round(X[I, J]), 1, 5)
    model = MatrixFactorization(n_components=2).fit_ratings(I, J, stars)
    free = MatrixFactorization(n_components=2, bounds=None).fit_ratings(I, J, stars)
    given = MatrixFactorization(n_components=2, bounds=(2, 3.5)).fit_ratings(I, J, stars)
    assert model.bounds_ == (1.0, 5.0)
    assert free.bounds_ is None
    assert predictions(free).max() > 5
    np.testing.assert_array_equal(predictions(model), np.clip(predictions(free), 1, 5))
    np.testing.assert_array_equal(predictions(given), np.clip(predictions(free), 2, 3.5))
    assert MatrixFactorization(n_components=1).fit_ratings(I, J, X[I, J]).bounds_ is None


def test_recommendations(fitted):
    items, mean = fitted.recommend(7, n=5)
    seen = J[I == 7]
    new = np.setdiff1d(np.arange(X.shape[1]), seen)
    order = new[np.argsort(-fitted.predict(7, new))][:5]
    np.testing.assert_array_equal(items, order)
    np.testing.assert_allclose(mean, fitted.predict(7, order))
    _, _, std = fitted.recommend(7, n=5, return_std=True)
    np.testing.assert_array_equal(std, fitted.predict(7, order, return_std=True)[1])
    everything, _ = fitted.recommend(7, n=1000, exclude_seen=False)
    assert sorted(everything) == list(range(X.shape[1]))
    left, _ = fitted.recommend(7, n=1000)
    assert sorted(left) == new.tolist()
    with pytest.warns(UserWarning, match="1 user was not in"):
        liked, _ = fitted.recommend(-1, n=1000)
    np.testing.assert_array_equal(liked, np.argsort(-fitted.item_biases_, kind="stable"))
    assert fitted.recommend(7, n=0)[0].size == 0
    with pytest.raises(ValueError, match="n must be a whole number"):
        fitted.recommend(7, n=2.5)
    with pytest.raises(ValueError, match="one id is expected"):
        fitted.recommend([7, 8])


def test_items_beyond_the_bounds_are_still_in_order():
    stars = np.clip(np.round(X[I, J]), 1, 5)
    model = MatrixFactorization(n_components=2, bounds=(2.9, 3.1)).fit_ratings(I, J, stars)
    free = MatrixFactorization(n_components=2, bounds=None).fit_ratings(I, J, stars)
    np.testing.assert_array_equal(model.recommend(3)[0], free.recommend(3)[0])
    assert model.recommend(3)[1].max() <= 3.1


def test_similar_items(fitted):
    items, cosines = fitted.similar_items(4, n=6)
    assert 4 not in items
    assert items.size == 6
    scale = np.sqrt(fitted.posterior_.rows.prior[: fitted.n_components_])
    B = fitted.item_factors_ * scale
    expected = B @ B[4] / np.linalg.norm(B, axis=1) / np.linalg.norm(B[4])
    np.testing.assert_allclose(cosines, expected[items])
    np.testing.assert_allclose(cosines, np.sort(np.delete(expected, 4))[::-1][:6])
    assert fitted.similar_items(4, n=1000)[0].size == X.shape[1] - 1
    with pytest.raises(ValueError, match="no item 999 among the 30"):
        fitted.similar_items(999)


@pytest.mark.parametrize("method", METHODS)
def test_a_new_user_is_folded_in(method):
    """A known user's ratings give that user's predictions: at the end, rows follow from columns."""
    model = MatrixFactorization(method, n_components=2, tol=1e-10).fit_ratings(I, J, X[I, J])
    mine = J[I == 5]
    mean, std = model.predict_new(mine, X[5, mine], return_std=True)
    expected, expected_std = model.predict(5, model.items_, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-4)
    # Both include the uncertainty of the rated items.
    np.testing.assert_allclose(std, expected_std, rtol=1e-4)
    some = model.predict_new(mine, X[5, mine], targets=[3, 4])
    assert some[0] == pytest.approx(mean[3])


def test_a_new_user_without_ratings_is_not_known(fitted):
    mean, std = fitted.predict_new([], [], return_std=True)
    with pytest.warns(UserWarning, match="not in the fit"):
        expected, expected_std = fitted.predict(-1, fitted.items_, return_std=True)
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_allclose(std, expected_std)
    with pytest.warns(UserWarning, match="1 of 2 items is unknown to the model and was left out"):
        left_out = fitted.predict_new([1, 999], [3.0, 4.0])
    np.testing.assert_array_equal(left_out, fitted.predict_new([1], [3.0]))
    np.testing.assert_allclose(
        fitted.predict_new([1, 1], [2.0, 4.0]), fitted.predict_new([1], [3.0])
    )
    with pytest.raises(ValueError, match="of one length: got 1 and 2"):
        fitted.predict_new([1], [3.0, 4.0])


def test_score(fitted):
    pairs = list(zip(I.tolist(), J.tolist(), strict=True))
    expected = -np.sqrt(np.mean((fitted.predict(I, J) - X[I, J]) ** 2))
    assert fitted.score(pairs, X[I, J]) == pytest.approx(expected)
    assert fitted.score(pd.DataFrame(pairs), X[I, J]) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"X is of shape \(2, 2\), but the fit had 45 users"):
        fitted.score(np.ones((2, 2)))
    with pytest.raises(ValueError, match="X must be pairs"):
        fitted.score(np.ones((4, 3)), np.ones(4))
    with pytest.raises(ValueError, match="X has 4 pairs, but y has 3"):
        fitted.score(np.ones((4, 2)), np.ones(3))


# --- bad input ---------------------------------------------------------------------------------

NOT_RATINGS = {
    "text": ([1, 2], [1, 2], [3, "good"], r"ratings must be numbers, .* 'good' at position 1"),
    "none": ([1, 2], [1, 2], [None, 3], r"ratings must be numbers, .* None at position 0"),
    "nan": ([1, 2], [1, 2], [3, np.nan], r"ratings must be finite, .* nan at position 1"),
    "infinite": ([1, 2], [1, 2], [-np.inf, 1], r"ratings must be finite, .* -inf at position 0"),
    "lengths": ([1, 2], [1, 2, 3], [1, 2], r"users has 2, items has 3, ratings has 2"),
    "nothing": ([], [], [], "there are no ratings: at least one is needed"),
    "no user": ([1, None], [1, 2], [3, 4], r"users has no id at position 1 .* None"),
    "nan as item": ([1, 2], [np.nan, 2.0], [3, 4], r"items has no id at position 0 .* nan"),
    "NA": (pd.Series(["a", pd.NA], dtype="string"), [1, 2], [3, 4], r"no id at position 1"),
    "list as id": ([1, [2]], [1, 2], [3, 4], r"users has \[2\] at position 1 .* a list"),
    "a number": (1, [1], [3], "users must be a list, an array or a column, got int"),
    "a string": ("abc", [1], [3], "users must be a list, an array or a column, got str"),
    "a matrix": (np.ones((2, 2)), [1], [3], r"users must be one column, .* \(2, 2\)"),
}
NOT_OPTIONS = [
    ({"method": "vb"}, "method must be one of 'evb', 'epb', 'emap', 'gibbs'; got 'vb'"),
    ({"n_components": -1}, "n_components must be 'auto' or a whole number"),
    ({"n_components": 2.5}, "n_components must be 'auto' or a whole number"),
    ({"noise_variance": 0}, "noise_variance must be 'auto' or a positive number"),
    ({"noise_variance": "0db"}, "noise_variance must be 'auto' or a positive number"),
    ({"bounds": (5, 1)}, "bounds must be 'auto', None or two numbers"),
    ({"bounds": "wide"}, "bounds must be 'auto', None or two numbers"),
    ({"init": "zero"}, "init must be one of"),
    ({"dtype": "int8"}, "dtype must be one of"),
    ({"biases": "some"}, "biases must be one of"),
    ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
    ({"tol": -1}, "tol must be a number of at least 0"),
]


@pytest.mark.parametrize("name", NOT_RATINGS)
def test_what_are_no_ratings(name, fitted):
    *given, message = NOT_RATINGS[name]
    model = copy.copy(fitted)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit_ratings(*given)
    assert vars(model) == before


@pytest.mark.parametrize(("options", "message"), NOT_OPTIONS)
def test_what_are_no_options(options, message):
    model = MatrixFactorization(**options)
    with pytest.raises(ValueError, match=message):
        model.fit_ratings(I, J, X[I, J])
    assert vars(model) == vars(MatrixFactorization(**options))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (sp.csr_array((3, 2)), "there are no ratings"),
        (np.full((2, 2), np.nan), "there are no ratings"),
        (np.array([[1.0, 2.0], [np.inf, 3.0]]), "inf at row 1, column 0"),
        (sp.csr_array(np.array([[0, 2.0], [0, np.nan]])), "nan at row 1, column 1"),
        (np.ones(3), "Expected 2D array"),
    ],
)
def test_what_is_no_matrix_of_ratings(matrix, message):
    with pytest.raises(ValueError, match=message):
        MatrixFactorization().fit(matrix)


def test_duplicates_are_averaged_and_told():
    users, items = [0, 0, 1, 1, 0], ["x", "y", "x", "y", "x"]
    model = MatrixFactorization()
    with pytest.warns(UserWarning, match=r"1 rating repeats a \(user, item\) pair") as told:
        model.fit_ratings(users, items, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert told[0].filename == __file__
    once = MatrixFactorization().fit_ratings(users[:4], items[:4], [3.0, 2.0, 3.0, 4.0])
    assert model.n_duplicates_ == 1
    assert model.n_ratings_ == 4
    assert once.n_duplicates_ == 0
    assert model.free_energy_ == pytest.approx(once.free_energy_)
    assert "duplicates" in model.status_
    cells = sp.coo_array(([1.0, 5.0, 2.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    with pytest.warns(UserWarning, match="1 rating repeats"):
        assert MatrixFactorization().fit(cells).n_ratings_ == 2


def test_rows_and_columns_without_ratings_have_the_answer_of_the_prior():
    empty = X.copy()
    empty[[3, 5]] = np.nan
    empty[:, 7] = np.nan
    model = MatrixFactorization(n_components=2).fit(empty)
    assert "users without any rating: 2." in str(model.status_)
    assert "items without any rating: 1." in str(model.status_)
    # The prior is updated once more than the posteriors, so deviations differ a little.
    with pytest.warns(UserWarning, match="not in the fit"):
        mean, std = model.predict([3, 999], 0, return_std=True)
    assert mean[0] == pytest.approx(mean[1])
    assert std[0] == pytest.approx(std[1], rel=1e-4)
    with pytest.warns(UserWarning, match="not in the fit"):
        mean, std = model.predict(0, [7, 999], return_std=True)
    assert mean[0] == pytest.approx(mean[1])
    assert std[0] == pytest.approx(std[1], rel=1e-4)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_the_smallest_data(method, biases):
    for values in ([4.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0]):
        n = len(values)
        model = MatrixFactorization(method, biases=biases)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit_ratings(["u"] * n, list(range(n)), values)
        # Without biases no mean is subtracted, so equal ratings of 3 are not all zero.
        if biases or not values[0]:
            assert "All ratings are the same" in str(told[0].message)
        with pytest.warns(UserWarning, match="not in the fit"):
            mean, std = model.predict(["u", "nobody"], 0, return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0).all()
        assert model.recommend("u")[0].size == 0
        assert model.similar_items(0)[0].size == n - 1
        if biases:
            assert mean[0] == pytest.approx(values[0], abs=1e-3)


def test_before_fitting():
    model = MatrixFactorization()
    for call in (
        lambda: model.predict(1, 1),
        lambda: model.recommend(1),
        lambda: model.similar_items(1),
        lambda: model.predict_new([1], [2.0]),
        lambda: model.score(np.ones((2, 2))),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_an_early_end_is_told():
    model = MatrixFactorization(max_iter=2, tol=0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol") as told:
        model.fit_ratings(I, J, X[I, J])
    assert told[0].filename == __file__
    assert not model.converged_


def test_a_callback_sees_every_step_and_may_end_it():
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MatrixFactorization(n_components=2).fit_ratings(
            I, J, X[I, J], callback=lambda step, info: seen.append(info.free_energy) or step == 3
        )
    assert len(seen) == 3


def test_verbose_prints_a_line(capsys):
    MatrixFactorization(verbose=True).fit_ratings(I, J, X[I, J])
    assert "ratings of 30 items by 45 users, evb: rank 2" in capsys.readouterr().out


# --- as an estimator, and as a file ------------------------------------------------------------


def test_cloning_parameters_and_pickling(fitted):
    model = clone(MatrixFactorization("epb", bounds=(1, 5), n_components=3))
    assert model.get_params()["bounds"] == (1, 5)
    assert vars(model.set_params(tol=1e-3))["tol"] == 1e-3
    assert repr(MatrixFactorization("emap", biases=False)) == (
        "MatrixFactorization(biases=False, method='emap')"
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(predictions(again), predictions(fitted))


@pytest.mark.filterwarnings("ignore:1 user was not in")
@pytest.mark.parametrize("kind", ["whole numbers", "floats", "strings", "flags"])
@pytest.mark.parametrize("method", METHODS)
def test_files(kind, method, tmp_path):
    ids, path = IDS[kind], tmp_path / "model.bpca"
    n = len(ids)
    model = MatrixFactorization(method, bounds=(0, 9), biases=kind != "floats")
    model.fit_ratings(ids * 3, np.repeat(["x", "y", "z"], n), X[:3, :n].ravel())
    model.save(path)
    loaded = load(path)
    assert loaded.get_params() == model.get_params()
    assert loaded.users_.tolist() == ids or sorted(ids) == loaded.users_.tolist()
    for user in [*ids, "nobody" if kind == "strings" else 999]:
        assert loaded.predict(user, "y", return_std=True) == model.predict(
            user, "y", return_std=True
        )
        for a, b in zip(loaded.recommend(user), model.recommend(user), strict=True):
            np.testing.assert_array_equal(a, b)
    assert vars(loaded).keys() == vars(model).keys()
    for name in ("noise_variance_", "free_energy_", "n_ratings_", "bounds_", "mean_"):
        assert getattr(loaded, name) == getattr(model, name)


def test_an_unfitted_one_can_be_saved(tmp_path):
    MatrixFactorization("epb", bounds=[1, 5]).save(tmp_path / "m")
    assert load(tmp_path / "m").bounds == [1, 5]


@pytest.mark.parametrize("kind", ["tuples", "mixed", "beyond 64 bits"])
def test_ids_without_a_place_in_a_file_are_told(kind, tmp_path):
    ids = IDS[kind]
    model = MatrixFactorization().fit_ratings(ids, ["x"] * len(ids), np.arange(len(ids)))
    with pytest.raises(TypeError, match=r"cannot save users_: the id .* name them by strings"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def without_first_user(posterior):
    return replace(posterior, rows=posterior.rows.taken(np.arange(1, 45)))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("seen_items", lambda seen: seen + 10**6, "lists of rated items"),
        ("seen_starts", lambda starts: starts[:-1], "lists of rated items"),
        ("posterior", without_first_user, "45 users with 2 components"),
        ("items", lambda items: items[1:], "29 items with 2 components"),
        ("bounds", lambda bounds: (5.0, 1.0), "bounds are not in order"),
        ("bounds", lambda bounds: 5.0, "bounds of a FactorizationFit is not a tuple of a number"),
        ("posterior", lambda record: replace(record, unit=0.0), "unit or the noise variance"),
    ],
)
def test_what_does_not_belong_together_is_no_file(name, change, message, fitted, tmp_path):
    model = copy.copy(fitted)
    model.fit_ = replace(model.fit_, **{name: change(getattr(model.fit_, name))})
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_the_trace_can_be_drawn():
    pytest.importorskip("matplotlib")
    from bayespca.displays import FreeEnergyDisplay

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30)) + 0.3 * rng.normal(size=(40, 30))
    model = MatrixFactorization().fit(np.where(rng.random(X.shape) < 0.5, np.nan, X))
    display = FreeEnergyDisplay.from_estimator(model)
    assert len(display.ax_.lines[0].get_xdata()) == model.n_iter_


@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
@pytest.mark.parametrize("value", [0.0, 1.0, 5.0])
def test_ratings_that_are_all_the_same(method, value):
    """As with likes: all known ratings are equal, and all others are unknown."""
    X = np.full((12, 7), value)
    X[::3, ::2] = np.nan
    with pytest.warns(UserWarning, match="All ratings are the same"):
        model = MatrixFactorization(method).fit(X)
    assert model.n_components_ == 0
    np.testing.assert_allclose(model.predict([0, 3], [0, 2]), value, atol=1e-6)


PAIRS = np.array([(u, i) for u in range(6) for i in range(5) if (u + i) % 3])
SCORES = 1.0 + (PAIRS.sum(axis=1) % 5)


def _day(u: int) -> datetime.date:
    return datetime.date(2020, 1, 1 + u)


@pytest.mark.parametrize(
    ("known", "asked", "words"),
    [
        (int, str, "users has '0' at position 0 .*, of type str, .* of the fit are numbers, as 0:"),
        (str, int, "users has 0 at position 0 .*, of type int, .* of the fit are text, as '0':"),
        (str, lambda u: str(u).encode(), "has b'0' at position 0 .*, of type bytes, .* are text"),
        (int, lambda u: (u, u), r"has \(0, 0\) at position 0 .*, of type tuple, .* are numbers"),
        (int, _day, "of type date, but the ids of the fit are numbers"),
        (int, lambda u: np.datetime64(_day(u)), "of type datetime64, but the ids .* are numbers"),
        (_day, str, "of type str, but the ids of the fit are of type date"),
        # A person would call these equal, but as keys they differ.
        (_day, lambda u: datetime.datetime(2020, 1, 1 + u), "of type datetime, .* of type date, "),
        (_day, lambda u: np.datetime64(_day(u)), "of type datetime64, .* of type date, as"),
    ],
)
def test_ids_of_another_type_are_told(known, asked, words):
    """Otherwise all would count as unknown users, whose predictions are means."""
    users = [known(u) for u in PAIRS[:, 0].tolist()]
    model = MatrixFactorization().fit_ratings(users, PAIRS[:, 1], SCORES)
    others = [asked(u) for u in PAIRS[:, 0].tolist()]
    with pytest.raises(ValueError, match=words):
        model.predict(others, PAIRS[:, 1])
    with pytest.raises(ValueError, match="give ids in the type that they had in the fit"):
        model.predict([*users, others[0]], [0] * (len(users) + 1))
    with pytest.warns(UserWarning, match="1 user was not in"):
        assert model.predict([known(9)], [0]).shape == (1,)


@pytest.mark.parametrize("known", [int, float, str])
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s")])
def test_what_is_no_id_has_no_prediction(known, nothing):
    users = [known(u) for u in PAIRS[:, 0].tolist()]
    items = [known(i) for i in PAIRS[:, 1].tolist()]
    model = MatrixFactorization().fit_ratings(users, items, SCORES)
    with pytest.raises(ValueError, match="users has no id at position 0"):
        model.predict(nothing, known(0))
    with pytest.raises(ValueError, match="items has no id at position 1"):
        model.predict(users[:2], [known(0), nothing])
    with pytest.raises(ValueError, match="items has no id at position 0"):
        model.similar_items(nothing)
    with pytest.raises(ValueError, match="targets has no id at position 1"):
        model.predict_new([known(0)], [3.0], targets=[known(0), nothing])


@pytest.mark.parametrize("unordered", [{1, 2}, frozenset({1}), {1: 2.0}])
def test_sets_are_no_columns(unordered):
    model = MatrixFactorization().fit_ratings(PAIRS[:, 0], PAIRS[:, 1], SCORES)
    with pytest.raises(ValueError, match="users must be a list, an array or a column, got"):
        model.predict(unordered, 0)


@pytest.mark.parametrize(("dtype", "low"), [("u8", 2**63), ("u8", 2**64 - 7), ("i1", -128)])
def test_ids_at_the_limits_of_their_type(dtype, low, tmp_path):
    if dtype == "i1":
        users = (PAIRS[:, 0] * 50 - 128).astype("i1")
    else:
        users = PAIRS[:, 0].astype(dtype) + np.array(low, dtype)
    model = MatrixFactorization().fit_ratings(users, PAIRS[:, 1], SCORES)
    assert model.users_.tolist() == sorted(set(users.tolist()))
    model.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    plain = MatrixFactorization().fit_ratings(PAIRS[:, 0], PAIRS[:, 1], SCORES)
    np.testing.assert_array_equal(
        again.predict(users, PAIRS[:, 1]), plain.predict(PAIRS[:, 0], PAIRS[:, 1])
    )


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_ids_and_ratings_of_other_libraries_are_brought_here(library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    place = {}
    if library == "array_api_strict":
        # NumPy cannot read arrays on this device, just as it cannot read those on a GPU.
        place = {"device": xp.Device("device1")}
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((20, 10)) < 0.6)
    stars = rng.normal(size=i.size)
    expected = MatrixFactorization().fit_ratings(i, j, stars)
    columns = [xp.asarray(column, **place) for column in (i, j, stars)]
    model = MatrixFactorization().fit_ratings(*columns)
    assert model.users_.tolist() == expected.users_.tolist()
    some = [xp.asarray(column[:5], **place) for column in (i, j)]
    assert model.predict(*some) == pytest.approx(expected.predict(i[:5], j[:5]), abs=0)
    X = np.full((20, 10), np.nan)
    X[i, j] = stars
    again = MatrixFactorization().fit(xp.asarray(X, **place))
    assert again.free_energy_ == expected.free_energy_

"""`MultiViewPCA` with likelihoods: its input, its answers, and their accuracy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit

import bayespca
from bayespca import BinaryPCA, GeneralizedPCA, MultiViewPCA
from views.mixed import PATTERN, simulated
from views.simulated import pierced, rows_of
from views.simulated import simulated as numbers

NAMES = ("genes", "mutations", "cells")
KINDS = {"mutations": "bernoulli", "cells": "poisson"}


def views_of(seed=0, holes=0.0, **options):
    truth = simulated(seed, **options)
    tables = pierced(truth.tables, holes) if holes else truth.tables
    return dict(zip(NAMES, tables, strict=True)), truth


@pytest.fixture(scope="module")
def given():
    return views_of()


@pytest.fixture(scope="module")
def model(given):
    return MultiViewPCA(likelihood=KINDS).fit(given[0])


def clinic(truth, n=200, seed=0):
    """A table of patients with flags, ranks, counts and categories."""
    rng, a = np.random.default_rng(seed), truth.scores
    stage = np.digitize(a[:, 1] + 0.3 * rng.normal(size=n), [-1, 0, 1])
    return pd.DataFrame(
        {
            "sex": np.where(a[:, 0] + 0.3 * rng.logistic(size=n) > 0, "f", "m"),
            "visits": rng.poisson(np.exp(0.5 * a[:, 1] + 1)),
            "stage": pd.Categorical.from_codes(stage, ["I", "II", "III", "IV"], ordered=True),
            "smokes": a[:, 0] + rng.normal(size=n) > 0,
            "colour": rng.choice(["red", "green", "blue"], n),
        },
        index=[f"s{i}" for i in range(n)],
    )


@pytest.fixture(scope="module")
def frames(given):
    views, truth = given
    genes = pd.DataFrame(views["genes"], index=[f"s{i}" for i in range(200)])
    genes.columns = [f"g{j}" for j in range(40)]
    table = clinic(truth)
    table.loc["s3", "sex"], table.loc["s4", "stage"] = None, None
    return {"genes": genes, "clinic": table.iloc[:150]}


@pytest.fixture(scope="module")
def of_frames(frames):
    return MultiViewPCA(likelihood={"clinic": "auto"}).fit(frames)


# --- equivalent models ---------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["normal", "auto", {"view 1": "normal"}, {"view 2": "auto"}])
def test_views_of_numbers_are_fitted_as_before(likelihood):
    tables = numbers(0)[1]
    before = MultiViewPCA().fit(tables)
    found = MultiViewPCA(likelihood=likelihood).fit(tables)
    assert found.free_energy_ == before.free_energy_
    np.testing.assert_array_equal(found.transform(tables), before.transform(tables))
    assert found.likelihoods_ == dict.fromkeys(found.view_names_, "normal")
    assert found.output_names_ is None


def test_one_view_of_flags_is_binary_pca():
    X = simulated(1, sizes=(50,), pattern=np.ones((3, 1), bool), kinds=("bernoulli",)).tables[0]
    found = MultiViewPCA(likelihood="bernoulli", tol=1e-10, max_iter=3000).fit(X)
    binary = BinaryPCA(tol=1e-10, max_iter=3000).fit(X)
    general = GeneralizedPCA(likelihood="bernoulli", tol=1e-10, max_iter=3000).fit(X)
    assert found.n_components_ == binary.n_components_ == general.n_components_ == 3
    assert found.free_energy_ == pytest.approx(binary.free_energy_, rel=1e-8)
    assert found.free_energy_ == pytest.approx(general.free_energy_, rel=1e-8)
    X = X.copy()
    X[::3, ::4] = np.nan
    np.testing.assert_allclose(
        found.inverse_transform(found.transform(X)),
        general.inverse_transform(general.transform(X)),
        atol=1e-3,
    )


# --- results -------------------------------------------------------------------------------------


def test_the_pattern_is_found_with_probabilities(model):
    assert rows_of(model.active_) == rows_of(PATTERN)
    np.testing.assert_array_equal(model.active_probability_ > 0.5, model.active_)
    assert model.likelihoods_ == {"genes": "normal", **KINDS}
    assert model.noise_variance_[0] == pytest.approx(1.0, abs=0.05)
    assert np.isnan(model.noise_variance_[1:]).all()
    explained = model.explained_variance_ratio_
    np.testing.assert_array_equal(explained > 0, model.active_)
    assert (explained.sum(axis=0) < 1).all()


def test_scores_are_those_that_made_the_data(given, model):
    T, std = model.transform(given[0], return_std=True)
    found = np.linalg.lstsq(np.column_stack([T, np.ones(200)]), given[1].scores, rcond=None)[0]
    rest = given[1].scores - np.column_stack([T, np.ones(200)]) @ found
    # The weakest factor is in the flags alone, and 200 samples say little about it.
    assert (rest.std(axis=0) < 0.5).all()
    assert std.shape == T.shape


def test_a_view_of_flags_follows_from_the_others(given, model):
    """The other views determine the shared factors, but not the one in the flags alone."""
    others = {name: given[0][name] for name in ("genes", "cells")}
    found = model.predict_view(others, "mutations")
    loss, truth, means = (
        _log_loss(p, given[0]["mutations"])
        for p in (found, expit(given[1].natural[1]), given[0]["mutations"].mean(axis=0))
    )
    assert truth < loss < truth + 0.2 * (means - truth)


def _log_loss(p, x):
    p = np.clip(np.broadcast_to(p, x.shape), 1e-9, 1 - 1e-9)
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).mean()


def test_what_was_given_for_a_view_is_not_used_to_predict_it(given, model):
    others = {name: given[0][name] for name in ("genes", "cells")}
    one, two = (model.predict_view(some, "mutations", True) for some in (given[0], others))
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_standard_deviations_are_those_of_draws(given, model):
    """Means and standard deviations of cells must agree with those of drawn tables."""
    some = {name: table[:25] for name, table in given[0].items()}
    hidden = some | {"cells": np.full((25, 30), np.nan), "mutations": np.full((25, 60), np.nan)}
    draws = model.sample_imputations(hidden, 150, random_state=0)
    for name in ("cells", "mutations"):
        mean, std = model.predict_view({"genes": some["genes"]}, name, return_std=True)
        drawn = np.stack([draw[name] for draw in draws])
        # Rates have long tails, so the cells with the largest deviations are left out.
        usual = std < np.quantile(std, 0.8)
        off = np.abs(drawn.mean(axis=0) - mean) / std
        assert np.quantile(off[usual], 0.9) < 0.2
        ratio = drawn.std(axis=0)[usual] / std[usual]
        assert np.median(ratio) == pytest.approx(1.0, abs=0.1)
        _, narrow = model.predict_view({"genes": some["genes"]}, name, return_std="mean")
        assert (narrow < std).all()


def test_rows_without_a_view_and_holes(given):
    views = {name: table.copy() for name, table in given[0].items()}
    views["mutations"][:30] = np.nan
    views["cells"][20:50] = np.nan
    rng = np.random.default_rng(0)
    for table in views.values():
        table[rng.random(table.shape) < 0.1] = np.nan
    found = MultiViewPCA(likelihood=KINDS).fit(views)
    assert rows_of(found.active_) == rows_of(PATTERN)
    filled = found.impute(views)
    for name, table in views.items():
        there = ~np.isnan(table)
        np.testing.assert_array_equal(filled[name][there], table[there])
        assert not np.isnan(filled[name]).any()
    assert set(np.unique(filled["mutations"])) == {0.0, 1.0}
    assert (filled["cells"] == np.round(filled["cells"])).all()


def test_probabilities_are_better_than_those_of_numbers(given, model):
    others = {name: given[0][name] for name in ("genes", "cells")}
    as_numbers = MultiViewPCA().fit(given[0]).predict_view(others, "mutations")
    by_numbers = _log_loss(np.clip(as_numbers, 0.02, 0.98), given[0]["mutations"])
    assert _log_loss(model.predict_view(others, "mutations"), given[0]["mutations"]) < by_numbers


def test_probabilities_are_calibrated():
    views, _ = views_of(3, n=1000)
    found = MultiViewPCA(likelihood=KINDS).fit({name: table[:500] for name, table in views.items()})
    rest = {name: table[500:] for name, table in views.items()}
    p = found.predict_view(rest, "mutations")
    for low in np.arange(0.0, 1.0, 0.2):
        there = (p >= low) & (p < low + 0.2)
        assert rest["mutations"][there].mean() == pytest.approx(p[there].mean(), abs=0.04)


def test_intervals_of_rates_hold(given, model):
    others = {name: given[0][name] for name in ("genes", "mutations")}
    mean, std = model.predict_view(others, "cells", return_std=True)
    inside = np.abs(given[0]["cells"] - mean) < 2 * std
    assert 0.9 < inside.mean() < 1.0


# --- tables of all kinds -------------------------------------------------------------------------


def test_frames_are_read_by_the_types_of_their_columns(of_frames, frames):
    assert of_frames.likelihoods_["genes"] == "normal"
    kinds = {"sex": "bernoulli", "stage": "ordinal", "smokes": "bernoulli"}
    assert kinds.items() <= of_frames.likelihoods_["clinic"].items()
    assert of_frames.likelihoods_["clinic"]["colour"] == "categorical"
    assert of_frames.n_samples_ == 200
    assert of_frames.components_["clinic"].shape == (of_frames.n_components_, 6)
    assert of_frames.mean_["clinic"].shape == (6,)
    names = of_frames.output_names_["clinic"]
    found, std = of_frames.predict_view({"genes": frames["genes"]}, "clinic", "mean")
    assert found.shape == std.shape == (200, len(names))
    stage = [names.index(f"stage={level}") for level in ("I", "II", "III", "IV")]
    np.testing.assert_allclose(found[:, stage].sum(axis=1), 1.0, atol=1e-6)
    men = frames["clinic"]["sex"] == "m"
    assert ((found[:150, names.index("sex=m")] > 0.5) == men).mean() > 0.8


def test_holes_are_filled_in_the_types_of_the_table(of_frames, frames):
    filled = of_frames.impute(frames)
    found = filled["clinic"]
    assert found.shape == (200, 5)
    assert list(found.index) == list(frames["genes"].index)
    pd.testing.assert_series_equal(found.dtypes, frames["clinic"].dtypes)
    assert not found.isna().any(axis=None)
    there = frames["clinic"].drop(index=["s3", "s4"])
    pd.testing.assert_frame_equal(found.loc[there.index], there)
    assert found.loc["s3", "sex"] in ("f", "m")


def test_a_view_that_is_not_given_is_filled_as_a_whole(of_frames, frames):
    few = frames["genes"].iloc[:3]
    filled, std = of_frames.impute({"genes": few}, return_std=True)
    assert filled["clinic"].shape == std["clinic"].shape == (3, 5)
    assert set(filled["clinic"][:, 0]) <= {"f", "m"}
    assert np.isnan(std["clinic"][:, 4]).all()
    assert (std["clinic"][:, :4] > 0).all()
    pd.testing.assert_frame_equal(filled["genes"], few)
    assert not std["genes"].any()


def test_columns_are_found_by_name(of_frames, frames):
    turned = {"genes": frames["genes"].iloc[:, ::-1], "clinic": frames["clinic"].iloc[:, ::-1]}
    np.testing.assert_allclose(of_frames.transform(turned), of_frames.transform(frames))
    filled = of_frames.impute(turned)["clinic"]
    pd.testing.assert_frame_equal(filled, of_frames.impute(frames)["clinic"])


def test_draws_keep_what_is_there(of_frames, frames):
    one, two, again = (
        *of_frames.sample_imputations(frames, 2, random_state=0),
        of_frames.sample_imputations(frames, 1, random_state=0)[0],
    )
    there = frames["clinic"].drop(index=["s3", "s4"])
    pd.testing.assert_frame_equal(one["clinic"].loc[there.index], there)
    assert not one["clinic"].equals(two["clinic"])
    pd.testing.assert_frame_equal(one["clinic"], again["clinic"])


def test_frames_of_polars_and_lists(frames, given):
    tables = [given[0]["genes"], pl.from_pandas(clinic(given[1]))]
    found = MultiViewPCA(likelihood={"view 2": {"visits": "poisson"}}).fit(tables)
    assert found.likelihoods_["view 2"]["visits"] == "poisson"
    assert found.likelihoods_["view 2"]["smokes"] == "bernoulli"
    holes = [None, tables[1]]
    genes, table = found.impute(holes)
    assert genes.shape == (200, 40)
    assert table.equals(tables[1])


def test_one_matrix_with_the_view_of_each_column(given, model):
    X = np.concatenate(list(given[0].values()), axis=1)
    views = np.repeat(NAMES, [40, 60, 30])
    found = MultiViewPCA(likelihood=KINDS).fit(X, views=views)
    assert found.free_energy_ == pytest.approx(model.free_energy_, rel=1e-10)
    np.testing.assert_allclose(found.transform(X), model.transform(given[0]), atol=1e-8)
    pierced_X = X.copy()
    pierced_X[0, 50] = np.nan
    assert found.impute(pierced_X)[0, 50] in (0.0, 1.0)


def test_likelihoods_by_column_and_for_all(given):
    views = {
        "a": given[0]["genes"][:, :5],
        "b": np.column_stack([given[0]["mutations"][:, :6], given[0]["cells"][:, :6]]),
    }
    kinds = dict.fromkeys(range(6), "bernoulli") | dict.fromkeys(range(6, 11), "poisson")
    found = MultiViewPCA(likelihood={"b": kinds}).fit(views)
    taken = found.likelihoods_["b"]
    assert [taken[str(j)] for j in range(11)] == list(kinds.values())
    assert taken["11"] in ("poisson", "negative-binomial", "ordinal")
    every = MultiViewPCA(likelihood="bernoulli").fit(given[0]["mutations"])
    assert every.likelihoods_ == {"X": "bernoulli"}


def test_a_view_of_constants_takes_no_part(given, model):
    found = MultiViewPCA(likelihood=KINDS).fit(given[0] | {"still": np.ones((200, 2))})
    assert "View 'still' does not vary" in str(found.status_)
    assert found.free_energy_ == pytest.approx(model.free_energy_, rel=1e-8)
    assert rows_of(found.active_[:, :3]) == rows_of(PATTERN)
    assert not found.active_[:, 3].any()
    np.testing.assert_allclose(found.predict_view(given[0], "still"), 1.0)


# --- files ---------------------------------------------------------------------------------------


def test_a_file_holds_all_of_it(model, given, of_frames, frames, tmp_path):
    for found, X in ((model, given[0]), (of_frames, frames)):
        found.save(tmp_path / "m.bpca")
        again = bayespca.load(tmp_path / "m.bpca")
        assert again.likelihoods_ == found.likelihoods_
        np.testing.assert_array_equal(again.transform(X), found.transform(X))
        np.testing.assert_array_equal(again.score_samples(X), found.score_samples(X))


def test_a_fit_that_was_broken_off_goes_on(given, model, tmp_path):
    path = tmp_path / "c.bpca"

    def stop(number, info):
        if number == 6:
            raise KeyboardInterrupt

    interrupted = MultiViewPCA(likelihood=KINDS, checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(given[0], callback=stop)
    found = MultiViewPCA(likelihood=KINDS, checkpoint=path).fit(given[0])
    assert found.free_energy_ == pytest.approx(model.free_energy_, rel=1e-8)


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        ({"b": "bernoulli", "c": "poisson"}, "names the view 'c', but the views are 'a', 'b'"),
        ({"b": "binary"}, "likelihood of view 'b' must be 'auto' or one of"),
        ({"b": {"9": "poisson"}}, "names the column '9', which view 'b' does not have"),
        ("binary", "likelihood must be one of"),
        ({"a": "poisson"}, "column 'a: 0' holds .* counts are never"),
        ({"a": "bernoulli"}, "column 'a: 0' has 50 levels"),
    ],
)
def test_likelihoods_that_cannot_be(likelihood, message):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(50, 3)), "b": rng.integers(0, 2, size=(50, 4))}
    with pytest.raises(ValueError, match=message):
        MultiViewPCA(likelihood=likelihood).fit(views)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((50, 0)), "view 'a' has no columns: leave it out"),
        (np.full((50, 2), np.inf), "view 'a': Input X contains infinity"),
        (np.full((50, 2), np.nan), "column 'a: 0' has no values"),
        (np.zeros(50), "view 'a': Expected 2D array"),
        (np.zeros((40, 2)), "view 'b' has 50 rows, but 'a' has 40"),
        (pd.DataFrame({"day": pd.date_range("2026", periods=50)}), "view 'a': .* holds dates"),
    ],
)
def test_tables_that_cannot_be_read(table, message):
    flags = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    with pytest.raises(ValueError, match=message):
        MultiViewPCA(likelihood={"b": "bernoulli", "a": "auto"}).fit({"a": table, "b": flags})


def test_texts_need_a_likelihood_that_takes_them(frames):
    with pytest.raises(ValueError, match="column 'clinic: sex' holds labels such as 'm'"):
        MultiViewPCA(likelihood={"clinic": {"sex": "poisson"}}).fit(frames)
    with pytest.raises(ValueError, match=r"view 'clinic': .* likelihood=\{'clinic': 'auto'\}"):
        MultiViewPCA().fit(frames)


def test_levels_that_the_fit_has_not_seen(of_frames, frames):
    new = frames["clinic"].copy()
    new.loc["s0", "sex"] = "x"
    with pytest.raises(ValueError, match="column 'clinic: sex' holds 'x' in row 0"):
        of_frames.transform({"clinic": new})


def test_dask_arrays_are_numbers(given, model):
    da = pytest.importorskip("dask.array")
    views = {name: da.from_array(table, chunks=(50, -1)) for name, table in given[0].items()}
    with pytest.raises(ValueError, match="likelihood is for tables in memory"):
        MultiViewPCA(likelihood=KINDS).fit(views)
    with pytest.raises(ValueError, match="likelihood is for tables in memory"):
        model.transform(views)

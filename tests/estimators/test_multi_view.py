"""`MultiViewPCA`: input of every kind, absent views, intervals, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import BayesianPCA, MultiViewPCA, load
from views.simulated import PATTERN, pierced, rows_of, simulated

NAMES = ("genes", "proteins", "clinic")


def views(seed=0, **sizes):
    _, tables, pattern = simulated(seed, **sizes)
    return dict(zip(NAMES, tables, strict=True)), pattern


@pytest.fixture(scope="module")
def fitted():
    tables, _ = views()
    return MultiViewPCA().fit(tables), tables


def frames(tables, *, seed=0):
    """DataFrames with named rows and columns, each with its rows in a different order."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, X in tables.items():
        columns = [f"{name[0]}{j}" for j in range(X.shape[1])]
        frame = pd.DataFrame(X, columns=columns, index=[f"s{i}" for i in range(len(X))])
        found[name] = frame.iloc[rng.permutation(len(X))]
    return found


# --- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dict", "one table", "matrix"])
def test_tables_are_left_as_they_are(kind):
    tables, _ = views()
    some = {"dict": tables, "one table": [tables["genes"]], "matrix": tables["genes"]}[kind]
    before = {name: X.copy() for name, X in tables.items()}
    MultiViewPCA().fit(some)
    assert all((tables[name] == X).all() for name, X in before.items())


def test_factors_and_their_views(fitted):
    model, tables = fitted
    assert model.n_components_ == 6
    assert rows_of(model.active_) == rows_of(PATTERN)
    assert ((model.active_probability_ > 0.5) == model.active_).all()
    assert model.explained_variance_ratio_.shape == (6, 3)
    assert (model.explained_variance_ratio_[~model.active_] == 0).all()
    for name, X in tables.items():
        assert model.components_[name].shape == (6, X.shape[1])
    noise = [model.noise_variance_[v] for v in range(3)]
    own = [BayesianPCA(noise="isotropic").fit(X).noise_variance_ for X in tables.values()]
    np.testing.assert_allclose(noise, own, rtol=0.05)


def test_scores_are_those_that_were_drawn():
    A, tables, _ = simulated(1, n=200)
    T = MultiViewPCA().fit_transform(tables)
    # Each factor is one that was drawn, up to its sign.
    correlation = np.abs(np.corrcoef(T.T, A.T)[:6, 6:])
    assert (correlation.max(axis=1) > 0.9).all()
    assert sorted(correlation.argmax(axis=1)) == list(range(6))


def test_one_view_is_a_pca():
    (X,) = simulated(1, sizes=(40,), pattern=PATTERN[:3, :1])[1]
    model = MultiViewPCA(noise="isotropic", tol=1e-12).fit(X)
    pca = BayesianPCA(noise="isotropic").fit(X)
    assert model.free_energy_ == pytest.approx(pca.free_energy_, rel=1e-8)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), pca.denoise(X), rtol=1e-4, atol=1e-4
    )


def test_no_factor_is_a_legal_answer():
    rng = np.random.default_rng(0)
    model = MultiViewPCA().fit([rng.normal(size=(40, 10)), rng.normal(size=(40, 8))])
    assert model.n_components_ == 0
    assert model.transform([rng.normal(size=(3, 10)), None]).shape == (3, 0)


def test_units_of_a_view_do_not_matter():
    tables, _ = views(2)
    model = MultiViewPCA().fit(tables)
    scaled = {"genes": 1e9 * tables["genes"], "proteins": tables["proteins"] + 1e4}
    other = MultiViewPCA().fit(scaled | {"clinic": 1e-9 * tables["clinic"]})
    np.testing.assert_array_equal(model.active_, other.active_)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, other.explained_variance_ratio_, rtol=1e-5, atol=1e-8
    )


def test_noise_of_features_is_found_and_does_not_add_factors():
    tables, pattern = views(4)
    rng = np.random.default_rng(0)
    uneven = {}
    for name, X in tables.items():
        size = np.exp(rng.normal(size=X.shape[1]))
        uneven[name] = (X + size * rng.normal(size=X.shape)) * rng.uniform(0.1, 10, X.shape[1])
    model = MultiViewPCA().fit(uneven)
    assert model.n_components_ == len(pattern)
    assert MultiViewPCA(6, noise="isotropic").fit(uneven).free_energy_ > model.free_energy_


# --- absent views and cells --------------------------------------------------------------------


def test_new_samples_may_have_any_of_the_views(fitted):
    model, tables = fitted
    T, std = model.transform(tables, return_std=True)
    some, wider = model.transform({"genes": tables["genes"]}, return_std=True)
    assert (wider >= std - 1e-12).all()
    for h, active in enumerate(model.active_[:, 0]):
        if active:
            assert np.corrcoef(T[:, h], some[:, h])[0, 1] > 0.9
        else:
            np.testing.assert_allclose(some[:, h], 0, atol=1e-10)
            np.testing.assert_allclose(wider[:, h], 1, rtol=1e-10)


def test_a_view_is_predicted_from_the_others_with_intervals_that_hold():
    tables, _ = views(5, n=300)
    model = MultiViewPCA().fit({name: X[:200] for name, X in tables.items()})
    new = {name: X[200:] for name, X in tables.items() if name != "proteins"}
    mean, std = model.predict_view(new, "proteins", return_std=True)
    truth = tables["proteins"][200:]
    inside = np.abs(truth - mean) < 1.96 * std
    assert inside.mean() == pytest.approx(0.95, abs=0.02)
    assert ((truth - mean) ** 2).mean() < 0.9 * truth.var(axis=0).mean()
    # Cells of the predicted view itself are not used.
    again = model.predict_view(new | {"proteins": np.zeros_like(truth)}, "proteins")
    np.testing.assert_array_equal(again, mean)


def test_cells_are_filled_with_intervals_that_hold():
    tables, _ = views(6, n=200)
    holed = dict(zip(NAMES, pierced(list(tables.values()), 0.2), strict=True))
    holed["clinic"][:40] = np.nan
    model = MultiViewPCA().fit(holed)
    # One absent pair of factor and view has a probability of 0.63.
    assert rows_of(model.active_probability_ > 0.95) == rows_of(PATTERN)
    filled, std = model.impute(holed, return_std=True)
    hidden = {name: np.isnan(X) for name, X in holed.items()}
    z = np.concatenate([(filled[n] - tables[n])[hidden[n]] / std[n][hidden[n]] for n in NAMES])
    assert (np.abs(z) < 1.96).mean() == pytest.approx(0.95, abs=0.015)
    for name in NAMES:
        np.testing.assert_array_equal(filled[name][~hidden[name]], holed[name][~hidden[name]])
        assert (std[name][~hidden[name]] == 0).all()
    draws = model.sample_imputations(holed, 2, random_state=0)
    assert not np.isnan(draws[1]["genes"]).any()
    assert (draws[0]["genes"] != draws[1]["genes"]).any()


def test_densities_know_samples_from_elsewhere(fitted):
    model, tables = fitted
    usual = model.score_samples(tables)
    odd = {name: X[::-1] for name, X in tables.items() if name != "genes"}
    assert usual.shape == (100,)
    assert model.score(tables | odd) < model.score(tables)


# --- kinds of input ----------------------------------------------------------------------------


def test_frames_are_joined_by_their_samples():
    tables, pattern = views()
    given = frames(tables)
    given["clinic"] = given["clinic"].iloc[:80]
    model = MultiViewPCA().fit(given)
    assert rows_of(model.active_) == rows_of(pattern)
    assert model.n_samples_ == 100
    assert list(model.sample_names_[:3]) == list(given["genes"].index[:3])
    assert model.feature_names_in_[0] == "genes: g0"
    filled = model.impute(given)
    assert list(filled["clinic"].columns) == list(given["clinic"].columns)
    assert filled["clinic"].shape == (100, 40)
    pd.testing.assert_frame_equal(
        filled["proteins"].loc[given["proteins"].index], given["proteins"], check_freq=False
    )


def test_columns_of_new_frames_are_found_by_name():
    given = frames(views()[0])
    model = MultiViewPCA().fit(given)
    turned = {name: frame.iloc[:, ::-1] for name, frame in given.items()}
    np.testing.assert_allclose(model.transform(given), model.transform(turned), rtol=1e-10)
    with pytest.raises(ValueError, match="view 'genes' has no column 'g3'"):
        model.transform({"genes": given["genes"].drop(columns="g3")})


def test_a_list_and_one_matrix_are_the_same():
    tables = list(views()[0].values())
    by_list = MultiViewPCA().fit(tables)
    names = np.repeat(NAMES, [X.shape[1] for X in tables])
    by_matrix = MultiViewPCA().fit(np.concatenate(tables, axis=1), views=names)
    assert list(by_list.view_names_) == ["view 1", "view 2", "view 3"]
    assert list(by_matrix.view_names_) == list(NAMES)
    np.testing.assert_allclose(
        by_list.transform(tables), by_matrix.transform(np.concatenate(tables, axis=1)), rtol=1e-9
    )
    assert isinstance(by_list.impute(tables), list)
    assert isinstance(by_list.inverse_transform(by_list.transform(tables)), dict)


def test_views_may_be_anndata():
    anndata = pytest.importorskip("anndata")
    tables, pattern = views()
    frame = frames(tables)
    cells = {name: anndata.AnnData(table) for name, table in frame.items()}
    model = MultiViewPCA().fit(cells)
    assert rows_of(model.active_) == rows_of(pattern)
    assert model.n_samples_ == 100

    class Multi:
        mod = cells

    np.testing.assert_allclose(model.transform(Multi()), model.transform(cells))


def test_float32_stays_float32():
    tables = {name: X.astype(np.float32) for name, X in views()[0].items()}
    model = MultiViewPCA().fit(tables)
    assert model.transform(tables).dtype == np.float32
    assert model.impute(tables)["genes"].dtype == np.float32


def test_a_saved_model_is_the_same(fitted, tmp_path):
    model, tables = fitted
    model.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    np.testing.assert_array_equal(again.transform(tables), model.transform(tables))
    np.testing.assert_array_equal(again.active_, model.active_)


def test_a_cap_on_the_number_of_factors():
    tables, _ = views()
    assert MultiViewPCA(2).fit(tables).n_components_ == 2


# --- bad input ---------------------------------------------------------------------------------


def test_a_view_that_does_not_vary_takes_no_part():
    tables, _ = views()
    model = MultiViewPCA().fit(tables | {"dull": np.full((100, 3), 7.0)})
    assert "View 'dull' does not vary" in str(model.status_)
    assert not model.active_[:, 3].any()
    np.testing.assert_allclose(model.predict_view(tables, "dull"), 7.0)


def test_a_column_that_does_not_vary_is_its_value():
    tables, _ = views()
    tables["genes"][:, 4] = 2.5
    model = MultiViewPCA().fit(tables)
    assert model.n_components_ == 6
    holed = {"genes": np.where(np.arange(60) == 4, np.nan, tables["genes"])}
    np.testing.assert_allclose(model.impute(holed)["genes"][:, 4], 2.5)


X, Y = np.random.default_rng(0).normal(size=(2, 10, 3))


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ({"a": X, "b": Y[:7]}, {}, "view 'b' has 7 rows, but 'a' has 10"),
        ({"a": X, "b": X[:, :0]}, {}, "view 'b' has no columns"),
        ({"a": X, "b": np.full((10, 2), np.nan)}, {}, "view 'b' has no value at all"),
        ({"a": X, "b": np.full((10, 2), np.inf)}, {}, "infinity"),
        ({}, {}, "holds no tables"),
        (X, {"views": ["a", "b"]}, "views names 2 columns, but X has 3"),
        ({"a": X}, {"views": ["a"] * 3}, "leave views out"),
        ({"a": pd.DataFrame({"x": ["u", "v"]})}, {}, "'x'"),
    ],
)
def test_sentences_for_what_cannot_be_fitted(given, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        MultiViewPCA().fit(given, **options)


def named(X, names):
    return pd.DataFrame(X, index=names)


def test_samples_that_do_not_match():
    ids = [f"s{i}" for i in range(10)]
    with pytest.raises(ValueError, match="view 'b' has the sample 's1' twice"):
        MultiViewPCA().fit({"a": named(X, ids), "b": named(Y, ["s1", "s1", *ids[2:]])})
    with pytest.raises(ValueError, match=r"shares no sample .* its first is 's0', theirs is 'x0'"):
        MultiViewPCA().fit({"a": named(X, ids), "b": named(Y, [f"x{i}" for i in range(10)])})


def test_sentences_for_views_that_are_not_known(fitted):
    model, tables = fitted
    with pytest.raises(ValueError, match="no view 'rna': its views are 'genes', 'proteins'"):
        model.transform({"rna": tables["genes"]})
    with pytest.raises(ValueError, match="no view 'rna'"):
        model.predict_view(tables, "rna")
    with pytest.raises(ValueError, match="list of 1 views, but the model has 3"):
        model.transform([tables["genes"]])
    with pytest.raises(ValueError, match="view 'genes' has 5 columns, but the fit had 60"):
        model.transform({"genes": tables["genes"][:, :5]})


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (np.ones((10, 3)), "nothing varies in the tables"),
        (np.where(np.eye(10, 3) > 0, np.nan, 2.0), "nothing varies in the tables"),
        (np.arange(3.0)[None], "the tables have a single sample"),
    ],
)
def test_tables_that_say_nothing_of_factors(table, sentence):
    for given in ({"a": table, "b": table}, [table, table]):
        with pytest.raises(ValueError, match=sentence):
            MultiViewPCA().fit(given)


# --- rows that have numbers --------------------------------------------------------------------


def numbered(tables):
    """DataFrames whose rows have the numbers 0, 1, 2, …"""
    return {name: pd.DataFrame(X).add_prefix(name) for name, X in tables.items()}


def test_shuffled_rows_are_found_by_their_numbers():
    given = numbered(views()[0])
    shuffled = given | {"genes": given["genes"].sample(frac=1, random_state=0)}
    straight, model = MultiViewPCA().fit(given), MultiViewPCA().fit(shuffled)
    assert rows_of(model.active_) == rows_of(straight.active_)
    assert list(model.sample_names_) == list(shuffled["genes"].index)
    T = model.transform(shuffled)[np.argsort(shuffled["genes"].index)]
    np.testing.assert_allclose(np.abs(T), np.abs(straight.transform(given)), rtol=0.02, atol=0.02)


def test_halves_of_a_table_share_no_sample():
    given = numbered(views()[0])
    half = len(given["genes"]) // 2
    halves = {"genes": given["genes"].iloc[:half], "clinic": given["clinic"].iloc[half : 2 * half]}
    with pytest.raises(ValueError, match="shares no sample"):
        MultiViewPCA().fit(halves)


def test_names_of_samples_stay_with_their_scores():
    given = frames(views()[0])
    model = MultiViewPCA().set_output(transform="pandas").fit(given)
    T = model.transform(given)
    assert list(T.index) == list(model.sample_names_)
    few = {name: X.sort_index().iloc[3:6] for name, X in given.items()}
    np.testing.assert_allclose(model.transform(few), T.loc[few["genes"].index], rtol=1e-6)

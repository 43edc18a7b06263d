"""`GeneralizedPCA` as users see it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayespca import BinaryPCA, GeneralizedPCA, load
from bayespca.estimators import ModelFileError
from bayespca.io import archive

LEVELS = ["low", "middle", "high", "top"]
COLOURS = np.array(["red", "green", "blue"])


def frame(n=300, seed=0):
    """A complete table with columns of all kinds, generated from two scores."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 2))

    def z(size=1.0):
        return size * A @ rng.normal(size=2)

    X = pd.DataFrame({f"size{j}": 50 + 8 * (z() + 0.4 * rng.normal(size=n)) for j in range(6)})
    for j in range(3):
        X[f"smokes{j}"] = z(1.5) + rng.logistic(size=n) > 0
        X[f"visits{j}"] = rng.poisson(np.exp(0.6 * z() + 1.0))
        pull = np.stack([z(1.5) for _ in range(3)], axis=1) + rng.gumbel(size=(n, 3))
        X[f"colour{j}"] = COLOURS[pull.argmax(axis=1)]
        ranks = np.digitize(z(1.5) + rng.logistic(size=n), [-1.5, 0.0, 1.5])
        X[f"stage{j}"] = pd.Categorical.from_codes(ranks, LEVELS, ordered=True)
    return X


def pierced(X, share=0.2, seed=1):
    """The table with holes, in types that allow them, and the mask of the holes."""
    hidden = np.random.default_rng(seed).random(X.shape) < share
    hidden[0] = False
    out = X.astype({name: "Int64" for name in X if name.startswith("visits")})
    out = out.astype({name: "boolean" for name in X if name.startswith("smokes")})
    return out.mask(hidden), hidden


FULL = frame()
HOLES, HIDDEN = pierced(FULL)


@pytest.fixture(scope="module")
def model():
    return GeneralizedPCA().fit(HOLES)


def test_the_rank_and_what_columns_are(model):
    assert model.n_components_ == 2
    kinds = {"size": "normal", "smokes": "bernoulli", "colour": "categorical", "stage": "ordinal"}
    for name, kind in model.likelihoods_.items():
        start = name.rstrip("012345")
        assert kind == kinds.get(start, kind)
        assert start != "visits" or kind in ("poisson", "negative-binomial")
    k, q = model.components_.shape
    assert (k, q) == (2, 6 + 3 + 3 + 2 * 3 + 3)
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(2), abs=1e-10)
    assert len(model.cell_names_) == q
    assert model.n_features_in_ == FULL.shape[1]
    assert model.n_samples_ == 300
    assert (np.diff(model.trace_.free_energy) <= 1e-6).all()


def test_holes_are_filled_in_the_types_of_the_table(model):
    filled = model.impute(HOLES)
    assert (filled.dtypes == HOLES.dtypes).all()
    assert not filled.isna().any().any()
    assert filled.index.equals(HOLES.index)
    for j, name in enumerate(FULL):
        there = ~HIDDEN[:, j]
        assert (filled[name][there] == FULL[name][there]).all()
    assert HOLES.isna().to_numpy().sum() == HIDDEN.sum(), "the table itself is left alone"
    assert set(filled["colour0"]) <= set(COLOURS)
    assert list(filled["stage0"].cat.categories) == LEVELS


def test_filled_cells_are_better_than_what_is_most_frequent(model):
    filled = model.impute(HOLES)
    for start, most in (("size", 0.6), ("visits", 0.9)):
        names = [name for name in FULL if name.startswith(start)]
        hidden = HIDDEN[:, FULL.columns.isin(names)]
        truth = FULL[names].to_numpy(dtype=float)
        errors = np.abs(filled[names].to_numpy(dtype=float) - truth)[hidden]
        usual = np.abs(np.median(truth, axis=0) - truth)[hidden]
        assert errors.mean() < most * usual.mean()
    names = [name for name in FULL if name.startswith(("smokes", "colour", "stage"))]
    right = [filled[name].astype(str) == FULL[name].astype(str) for name in names]
    hidden = [HIDDEN[:, FULL.columns.get_loc(name)] for name in names]
    usual = [FULL[name].astype(str) == FULL[name].astype(str).mode()[0] for name in names]

    def share(flags):
        return np.mean(np.concatenate([f[h] for f, h in zip(flags, hidden, strict=True)]))

    assert share(right) > share(usual) + 0.15


def test_intervals_and_probabilities_of_holes(model):
    filled, holes = model.impute(HOLES, interval=0.9)
    assert len(holes["row"]) == HIDDEN.sum()
    truth = np.array(
        [FULL[c].iloc[r] for r, c in zip(holes["row"], holes["column"], strict=True)], dtype=object
    )
    assert all(filled[c].iloc[r] == v for r, c, v, *_ in zip(*holes.values(), strict=True))
    inside = []
    for start in ("size", "visits"):
        some = np.array([name.startswith(start) for name in holes["column"]])
        low, high = (holes[key][some].astype(float) for key in ("low", "high"))
        held = (low <= truth[some].astype(float)) & (truth[some].astype(float) <= high)
        inside.append(held.mean())
        assert np.isnan(holes["probability"][some]).all()
    # Intervals of counts end at whole numbers, so they may cover more than their level.
    assert 0.85 < inside[0] < 0.95
    assert 0.87 < inside[1] < 0.99
    labels = np.array([name.startswith(("smokes", "colour", "stage")) for name in holes["column"]])
    right = (holes["value"] == truth)[labels]
    expected = holes["probability"][labels]
    assert right.mean() == pytest.approx(expected.mean(), abs=4 * np.sqrt(0.25 / right.size))
    ranks = np.array([name.startswith("stage") for name in holes["column"]])
    assert set(holes["low"][ranks]) <= set(LEVELS)
    assert all(value is None for value in holes["low"][labels & ~ranks])


def test_expected_cells(model):
    found = model.predict_cells(HOLES)
    assert found.shape == (300, len(model.output_names_))
    names = model.output_names_
    for start in ("colour0=", "stage1="):
        some = [j for j, name in enumerate(names) if name.startswith(start)]
        assert found[:, some].sum(axis=1) == pytest.approx(1, abs=1e-6)
    hidden = HIDDEN[:, FULL.columns.get_loc("size0")]
    ours, truth = found[hidden, names.index("size0")], FULL["size0"][hidden]
    assert np.corrcoef(ours, truth)[0, 1] > 0.8
    T, std = model.transform(HOLES, return_std=True)
    assert T.shape == std.shape == (300, 2)
    back = model.inverse_transform(T)
    close = [j for j, name in enumerate(names) if name.startswith("size")]
    assert back[:, close] == pytest.approx(found[:, close], abs=1e-6)
    assert ((back >= 0) | np.isin(np.arange(len(names)), close)).all()


def test_draws_are_tables_that_differ_where_holes_are(model):
    one, two = model.sample_imputations(HOLES, 2, random_state=0)
    assert (one.dtypes == HOLES.dtypes).all()
    assert not one.isna().any().any()
    there = ~HIDDEN
    same = np.column_stack([(one[name] == two[name]).to_numpy() for name in FULL])
    assert same[there].all()
    assert same[HIDDEN].mean() < 0.6
    draws = model.sample_imputations(HOLES, 30, random_state=1)
    row = int(np.flatnonzero(HIDDEN[:, 0])[0])
    values = np.array([draw["size0"].iloc[row] for draw in draws])
    _, holes = model.impute(HOLES, interval=0.95)
    width = (holes["high"][0] - holes["low"][0]) / (2 * 1.96)
    assert holes["row"][0] == row
    assert values.std() == pytest.approx(width, rel=0.5)


def test_densities_have_the_units_of_the_data(model):
    rows = model.score_samples(HOLES)
    assert model.score(HOLES) == pytest.approx(rows.mean())
    wider = HOLES.assign(size0=1000 * HOLES["size0"])
    scaled = GeneralizedPCA().fit(wider)
    assert scaled.n_components_ == 2
    count = int(HOLES["size0"].notna().sum())
    # Sweeps stop just short of the optimum.
    expected = model.free_energy_ + count * np.log(1000)
    assert scaled.free_energy_ == pytest.approx(expected, rel=1e-5)
    assert scaled.score_samples(wider).sum() == pytest.approx(
        rows.sum() - count * np.log(1000), rel=1e-3
    )


def test_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    X = polars.DataFrame(
        {
            **{f"size{j}": FULL[f"size{j}"].to_numpy() for j in range(5)},
            "smokes": polars.Series([None, *FULL["smokes0"].tolist()[1:]], dtype=polars.Boolean),
            "visits": polars.Series([None, *FULL["visits0"].tolist()[1:]], dtype=polars.Int32),
            "colour": polars.Series([None, *FULL["colour0"].tolist()[1:]], dtype=polars.String),
            "kind": polars.Series(
                [None, *FULL["colour1"].tolist()[1:]], dtype=polars.Enum(list(COLOURS))
            ),
        }
    )
    model = GeneralizedPCA().fit(X)
    assert model.likelihoods_["smokes"] == "bernoulli"
    assert model.likelihoods_["kind"] == "categorical"
    filled = model.impute(X)
    assert filled.schema == X.schema
    assert filled.null_count().sum_horizontal()[0] == 0
    assert filled[1:].equals(X[1:])


def test_arrays_of_numbers_and_of_texts():
    numbers = HOLES[[f"size{j}" for j in range(6)]].to_numpy()
    model = GeneralizedPCA().fit(numbers)
    filled = model.impute(numbers)
    assert filled.dtype == np.float64
    assert not np.isnan(filled).any()
    assert set(model.likelihoods_) == {f"x{j}" for j in range(6)}
    assert GeneralizedPCA(1).fit(numbers.astype(np.float32)).components_.dtype == np.float32
    texts = HOLES[["colour0", "colour1", "colour2", "size0", "size1"]].to_numpy(dtype=object)
    model = GeneralizedPCA(likelihood={0: "categorical"}).fit(texts)
    assert model.likelihoods_["x1"] == "categorical"
    filled = model.impute(texts)
    assert all(isinstance(value, str) for value in filled[:, 0])
    assert all(isinstance(value, float) for value in filled[:, 3])


def test_zeros_and_ones_are_binary_pca():
    """Zeros and ones have the same model and code: free energy, scores and densities must agree."""
    rng = np.random.default_rng(0)
    Z = 1.5 * rng.normal(size=(200, 2)) @ rng.normal(size=(2, 20))
    X = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    one, other = GeneralizedPCA().fit(X), BinaryPCA().fit(X)
    assert set(one.likelihoods_.values()) == {"bernoulli"}
    assert one.free_energy_ == pytest.approx(other.free_energy_, rel=1e-12)
    assert one.transform(X) == pytest.approx(other.transform(X), abs=1e-9)
    assert one.score_samples(X) == pytest.approx(other.score_samples(X), abs=1e-9)
    # GeneralizedPCA integrates scores out: loadings are less certain, probabilities nearer to ½.
    assert one.predict_cells(X) == pytest.approx(other.predict_proba(X), abs=0.02)


def test_sizes_of_rows_are_no_component():
    """Few columns take part in the component, so the sum of a row measures its size."""
    rng = np.random.default_rng(0)
    loadings = np.where(np.arange(30) < 5, 0.7, 0.0) * rng.choice([-1.0, 1.0], size=30)
    rates = np.exp(np.outer(rng.normal(size=300), loadings) + 1.0)
    X = rng.poisson(rates * np.exp(0.5 * rng.normal(size=(300, 1))))
    assert GeneralizedPCA(likelihood="poisson").fit(X).n_components_ == 2
    model = GeneralizedPCA(likelihood="poisson", row_sizes=True).fit(X)
    assert model.n_components_ == 1
    holes = X.astype(float)
    holes[::3, 4] = np.nan
    filled = model.impute(holes)
    assert (filled == np.round(filled)).all()
    assert np.corrcoef(np.log1p(filled[::3, 4]), np.log1p(X[::3, 4]))[0, 1] > 0.7


def test_new_rows_and_rows_without_values(model):
    new = pierced(frame(40, seed=0))[0].iloc[:5].reset_index(drop=True)
    assert model.transform(new).shape == (5, 2)
    empty = new.mask(np.ones(new.shape, bool))
    T, std = model.transform(empty, return_std=True)
    assert T == pytest.approx(0, abs=1e-9)
    assert (std > 0).all()
    assert model.score_samples(empty) == pytest.approx(0, abs=1e-9)
    assert not model.impute(empty).isna().any().any()
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(new[new.columns[::-1]])


@pytest.mark.parametrize("n_components", ["auto", 0])
def test_model_files(tmp_path, n_components):
    model = GeneralizedPCA(n_components, likelihood={"visits0": "poisson"}).fit(HOLES)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.transform(HOLES) == model.transform(HOLES)).all()
    pd.testing.assert_frame_equal(loaded.impute(HOLES), model.impute(HOLES))
    assert loaded.likelihoods_ == model.likelihoods_
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("fit_.posterior.b", lambda a: a[:, 1:], "different sizes"),
        ("fit_.posterior.b_spread", lambda a: -a, "of a TablePosterior are not positive"),
        ("fit_.posterior.b_spread", lambda a: a[1:], "different sizes"),
        ("fit_.posterior.parameters.0", lambda a: a[1:], "different sizes"),
        ("fit_.free_energy_by_rank", lambda a: a[:0], "do not reach its number of components"),
    ],
)
def test_files_that_lie(tmp_path, model, name, change, match):
    path = tmp_path / "model"
    model.save(path)
    meta, arrays = archive.read(path)
    archive.write(path, meta, arrays | {name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=match):
        load(path)


DATES = pd.Series(pd.date_range("2024-01-01", periods=300))


@pytest.mark.parametrize(
    ("column", "options", "match"),
    [
        (
            FULL["visits0"] - 5,
            {"likelihood": {"new": "poisson"}},
            "'new' holds -[0-9]+ .* negative",
        ),
        (FULL["size0"], {"likelihood": {"new": "poisson"}}, "'new' holds .* never fractional"),
        (["one"] * 300, {}, "'new' has a single level, 'one'"),
        ([f"name {i}" for i in range(300)], {}, "'new' has 300 levels, more than 50"),
        (DATES, {}, "'new' holds dates"),
        (DATES.dt.date, {}, "'new' holds dates"),
        ([None] * 300, {}, "'new' has no values"),
        (FULL["colour0"], {"likelihood": {"new": "ordinal"}}, "'new' have no order"),
        (FULL["colour0"], {"likelihood": {"new": "normal"}}, "'new' holds labels such as"),
        (FULL["colour0"], {"likelihood": {"new": "bernoulli"}}, "'new' has 3 levels"),
        (FULL["size0"], {"likelihood": {"other": "normal"}}, "'other', which X does not have"),
        (FULL["size0"], {"likelihood": {"new": "gamma"}}, "likelihood of 'new' must be"),
        (FULL["size0"], {"likelihood": "gamma"}, "likelihood must be"),
        (FULL["size0"], {"n_components": -1}, "n_components must be"),
        (FULL["size0"], {"n_init": 3}, "init='closed' has only one"),
        (FULL["size0"].where(FULL.index > 0, np.inf), {}, "infinity, first in column 'new', row 0"),
    ],
)
def test_mistakes_are_named(column, options, match):
    model = GeneralizedPCA(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=match):
        model.fit(FULL.assign(new=column))
    assert vars(model) == before
    assert clone(model).get_params() == model.get_params()


def test_mistakes_in_new_rows_are_named(model):
    rows = HOLES.iloc[:3].reset_index(drop=True)
    with pytest.raises(ValueError, match=r"'colour1' holds 'teal' in row 2 .* has not seen"):
        model.transform(rows.assign(colour1=["red", "blue", "teal"]))
    with pytest.raises(ValueError, match=r"'visits1' holds -1 in row 0 .* never negative"):
        model.impute(rows.assign(visits1=[-1, 2, 3]))
    with pytest.raises(ValueError, match="'size0' held numbers in the fit"):
        model.impute(rows.assign(size0=["a", "b", None]))
    with pytest.raises(ValueError, match="interval must be a number between 0 and 1"):
        model.impute(rows, interval=95)


def test_columns_that_do_not_vary_and_small_tables():
    X = FULL.iloc[:12, :8].assign(constant=3.5, zero=0)
    model = GeneralizedPCA().fit(X)
    assert model.likelihoods_["constant"] == "normal"
    assert np.isfinite(model.score(X))
    one = GeneralizedPCA().fit(FULL.iloc[:2, :3])
    assert one.transform(FULL.iloc[:2, :3]).shape == (2, one.n_components_)


def test_verbose_and_an_early_end(capsys):
    GeneralizedPCA(0, verbose=True).fit(FULL)
    assert "300×18, rank 0, free energy" in capsys.readouterr().out
    with pytest.warns(ConvergenceWarning, match="the free energy still fell"):
        GeneralizedPCA(max_iter=2).fit(FULL)


def test_draws_of_all_kinds_that_have_them():
    names = [name for name in HOLES if not name.startswith("visits")]
    table, hidden = HOLES[names], HIDDEN[:, [HOLES.columns.get_loc(name) for name in names]]
    options = {"n_chains": 1, "n_warmup": 60, "n_draws": 80, "thin": 1}
    sampled = GeneralizedPCA(method="gibbs", random_state=0, **options).fit(table)
    before = GeneralizedPCA(random_state=0).fit(table)
    assert sampled.n_components_ == before.n_components_
    ours, theirs = sampled.predict_cells(table), before.predict_cells(table)
    for j, name in enumerate(sampled.output_names_):
        assert np.corrcoef(ours[:, j], theirs[:, j])[0, 1] > 0.95, name
    filled, holes = sampled.impute(table, interval=0.95)
    assert (filled.dtypes == table.dtypes).all()
    some = [str(name).startswith("size") for name in holes["column"]]
    truth = np.array(
        [FULL[name][row] for row, name in zip(holes["row"], holes["column"], strict=True)]
    )[some].astype(float)
    low, high = (holes[key][some].astype(float) for key in ("low", "high"))
    assert 0.9 < ((low <= truth) & (truth <= high)).mean() < 1.0
    one, two = sampled.sample_imputations(table, 2, random_state=0)
    differ = (one.astype(str) != two.astype(str)).to_numpy()
    assert differ[hidden].mean() > 0.3
    assert not differ[~hidden].any()


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_counts_have_no_draws(likelihood):
    table = HOLES[["size0", "size1", "visits0"]]
    model = GeneralizedPCA(method="gibbs", likelihood={"visits0": likelihood})
    with pytest.raises(ValueError, match=f"{likelihood} cells, which column 'visits0' has"):
        model.fit(table)

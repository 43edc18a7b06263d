"""`MatrixFactorization(method="gibbs")`: predictions, their intervals, options, files."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bayespca import MatrixFactorization, load
from bayespca.cli.app import app
from bayespca.estimators.findings import findings_of
from bayespca.io.feature_files import FeatureColumns

N, M = 150, 60
# Chains are kept short for speed.
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")


def simulated(seed=0):
    """Indices, noise-free matrix and ratings; the noise differs between users."""
    rng = np.random.default_rng(seed)
    low = 3 + 0.7 * rng.normal(size=(N, 2)) @ rng.normal(size=(2, M)) + rng.normal(size=(1, M))
    noise = 0.6 * np.exp(0.5 * rng.normal(size=(N, 1))) * rng.normal(size=(N, M))
    i, j = np.nonzero(rng.random((N, M)) < 0.5)
    return i, j, low, (low + noise)[i, j]


def sampled(**options):
    options = {"n_draws": 40, "n_warmup": 10, "random_state": 0} | options
    return MatrixFactorization("gibbs", **options)


I, J, LOW, STARS = simulated()
HELD = np.random.default_rng(9).random(I.size) < 0.3


@pytest.fixture(scope="module")
def model():
    return sampled().fit_ratings(I[~HELD], J[~HELD], STARS[~HELD])


def test_predictions_and_their_intervals(model):
    i, j, truth = I[HELD], J[HELD], STARS[HELD]
    evb = MatrixFactorization().fit_ratings(I[~HELD], J[~HELD], STARS[~HELD])

    def error(found):
        return np.sqrt(np.mean((found.predict(i, j) - LOW[i, j]) ** 2))

    # Users whose ratings scatter more count less.
    assert error(model) < 0.97 * error(evb)
    mean, std = model.predict(i, j, return_std=True)
    assert 0.88 < np.mean(np.abs(mean - truth) < 1.645 * std) < 0.92
    right = sampled(n_components=2).fit_ratings(I[~HELD], J[~HELD], STARS[~HELD])
    mean, std = right.predict(i, j, return_std="mean")
    assert 0.85 < np.mean(np.abs(mean - LOW[i, j]) < 1.645 * std) < 0.95


def test_nothing_says_that_the_number_of_components_was_found(model):
    said = findings_of(model)
    assert said.headline == "Predictions are averages over 80 draws with seven dimensions of taste."
    assert said.facts[0].remark == "four more than EVB finds"
    given = sampled(n_components=1, n_draws=5).fit_ratings(I, J, STARS)
    assert "with one dimension of taste." in findings_of(given).headline
    assert findings_of(given).facts[0].remark == "as given"


def test_noises_of_users_are_found(model):
    rng = np.random.default_rng(0)
    rng.normal(size=(N, 2)), rng.normal(size=(2, M)), rng.normal(size=(1, M))
    truth = rng.normal(size=N)
    found = -np.log(model.draws_.row_weights.mean(axis=0))
    assert np.corrcoef(found, truth)[0, 1] > 0.8
    assert (sampled(noise="isotropic").fit_ratings(I, J, STARS).draws_.row_weights == 1).all()


def test_factors_are_means_over_draws_that_were_turned(model):
    H = model.n_components_
    assert model.user_factors_.shape == (N, H)
    low = model.user_factors_ @ model.item_factors_.T
    low = low + model.user_biases_[:, None] + model.item_biases_ + model.mean_
    np.testing.assert_allclose(low[I, J], model.predict(I, J), atol=0.35)
    assert (model.user_factors_std_ > 0).all()
    items, cosines = model.similar_items(3, n=5)
    assert items.size == 5
    assert (np.diff(cosines) <= 0).all()


def test_a_new_user_is_as_one_who_was_there(model):
    mine = np.flatnonzero((I == 5) & ~HELD)
    mean, std = model.predict_new(J[mine], STARS[mine], return_std=True)
    expected, spread = model.predict(5, model.items_, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.25)
    np.testing.assert_allclose(std, spread, rtol=0.35)
    assert np.corrcoef(mean, expected)[0, 1] > 0.99
    items, best = model.recommend_new(J[mine], STARS[mine], 4)
    left = np.setdiff1d(np.arange(M), J[mine])
    assert items.tolist() == left[np.argsort(-mean[left], kind="stable")][:4].tolist()
    np.testing.assert_allclose(best, np.sort(mean[left])[::-1][:4])


@pytest.mark.filterwarnings("ignore:.* not in the fit")
def test_a_new_user_and_a_new_item(model):
    """Their prediction is as wide as that of a known user with the same ratings."""
    mine = np.flatnonzero((I == 5) & ~HELD)
    targets = [999, 0]
    mean, std = model.predict_new(J[mine], STARS[mine], targets=targets, return_std=True)
    expected, spread = model.predict(5, targets, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.25)
    np.testing.assert_allclose(std, spread, rtol=0.1)
    assert std[0] > std[1]


@pytest.mark.filterwarnings("ignore:.* not in the fit")
def test_who_is_not_known_has_the_answer_of_the_prior(model):
    mean, std = model.predict([-1, 0, -1, 0], [0, 999, 999, 0], return_std=True)
    assert mean[2] == pytest.approx(model.mean_, abs=0.3)
    assert std[2] > max(std[0], std[1]) > min(std[0], std[1]) > std[3]
    none, spread = model.predict_new([], [], return_std=True)
    expected, wide = model.predict(-1, model.items_, return_std=True)
    np.testing.assert_allclose(none, expected, rtol=1e-6)
    np.testing.assert_allclose(spread, wide, rtol=1e-6)


def test_files_hold_draws(model, tmp_path):
    model.save(tmp_path / "m.bpca")
    loaded = load(tmp_path / "m.bpca")
    for one, other in zip(
        loaded.predict(I, J, return_std=True), model.predict(I, J, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert loaded.draws_.n_chains == 2
    assert loaded.r_hat_ == model.r_hat_


def test_a_checkpoint_is_taken_up(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    path = tmp_path / "c"

    def interrupt(number, info):
        if number == 15:
            raise KeyboardInterrupt

    asked = sampled(checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        asked.fit_ratings(I, J, STARS, callback=interrupt)
    assert path.exists()
    assert not hasattr(asked, "draws_")
    found, whole = asked.fit_ratings(I, J, STARS), sampled().fit_ratings(I, J, STARS)
    np.testing.assert_array_equal(found.draws_.rows, whole.draws_.rows)
    np.testing.assert_array_equal(found.predict(I, J), whole.predict(I, J))


def test_options():
    with pytest.raises(ValueError, match="n_draws=5 needs method='gibbs'"):
        MatrixFactorization(n_draws=5).fit_ratings(I, J, STARS)
    with pytest.raises(ValueError, match="noise='both' needs method='gibbs'"):
        MatrixFactorization("epb", noise="both").fit_ratings(I, J, STARS)
    few = sampled(n_draws=3, n_chains=1, n_components=3, noise_variance=0.4, biases=False)
    few.fit_ratings(I, J, STARS)
    assert few.draws_.rows.shape == (3, N, 3)
    assert few.noise_variance_ == pytest.approx(0.4)
    assert (few.draws_.row_weights == 1).all()
    assert few.n_iter_ == 13
    assert np.isnan(few.free_energy_)


def test_chains_that_have_not_mixed_are_told():
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = sampled(n_draws=4, n_warmup=0, n_components=12).fit_ratings(I, J, STARS)
    assert max(model.r_hat_.values()) > 1.2
    assert not model.converged_
    assert any(issubclass(one.category, ConvergenceWarning) for one in said)


@pytest.mark.parametrize("values", [[4.0], [3.0, 3.0, 3.0], [1.0, 5.0, 2.0]])
@pytest.mark.filterwarnings("ignore:All ratings are the same")
def test_the_smallest_data(values):
    n = len(values)
    model = sampled(n_draws=5).fit_ratings(["u"] * n, list(range(n)), values)
    mean, std = model.predict("u", list(range(n)), return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"user": I, "item": J, "rating": STARS}).to_csv("r.csv", index=False)
    asked = ["ratings", "r.csv", "--method", "gibbs", "--n-draws", "20", "--save", "m.bpca"]
    with pytest.raises(SystemExit) as stopped:
        app([*asked, "--json"], prog_name="bayespca")
    found = json.loads(capsys.readouterr().out)
    assert stopped.value.code == 0
    assert found["method"] == "gibbs"
    assert found["free_energy"] is None
    expected = MatrixFactorization("gibbs", n_draws=20, random_state=0).fit_ratings(I, J, STARS)
    assert load("m.bpca").predict(3, 4) == expected.predict(3, 4)
    with pytest.raises(SystemExit):
        app([*asked, "--report", "r.html"], prog_name="bayespca")
    assert "40 of 2 chains" in capsys.readouterr().out


# --- features ----------------------------------------------------------------------------------


def with_kinds():
    """Users with a taste for each of three kinds of items; the last 12 items have no ratings."""
    rng, n, m = np.random.default_rng(3), 80, 60
    kinds = rng.integers(0, 3, m)
    taste = rng.normal(size=(n, 3))
    X = 3 + taste[:, kinds] + 0.5 * kinds + 0.3 * rng.normal(size=(n, m))
    i, j = np.nonzero(rng.random((n, m - 12)) < 0.4)
    ids = np.array([f"item {k}" for k in range(m)], dtype=object)
    frame = pd.DataFrame({"kind": [("a", "b", "c")[k] for k in kinds]}, index=ids)
    return i, ids[j], X, X[i, j], frame


def test_items_without_ratings_are_answered_by_their_features():
    i, items, X, stars, frame = with_kinds()
    options = {"n_draws": 60, "n_warmup": 30, "random_state": 0}
    model = MatrixFactorization("gibbs", **options)
    model.fit_ratings(i, items, stars, item_features=frame)
    assert set(model.items_) == set(frame.index)
    new = frame.index[-12:]
    assert model.known(0, new).all()
    mean, std = model.predict(model.users_[:, None], new.to_numpy()[None], return_std=True)
    truth = X[:, -12:]
    error = np.sqrt(np.mean((mean - truth) ** 2))
    of_means = np.sqrt(np.mean((stars.mean() - truth) ** 2))
    assert error < 0.5 * of_means
    assert 0.8 < np.mean(np.abs(mean - truth) < 1.645 * std) < 0.99
    turned = MatrixFactorization("gibbs", **options)
    turned.fit_ratings(i, items, stars, item_features=frame.iloc[::-1])
    swapped = turned.predict(model.users_[:, None], new.to_numpy()[None])
    assert np.sqrt(np.mean((swapped - truth) ** 2)) < 0.5 * of_means


def test_users_without_ratings_and_numbers_as_ids():
    i, items, _, stars, _ = with_kinds()
    places = np.array([int(item.split()[1]) for item in items])
    ages = pd.DataFrame({"age": np.arange(85.0), "city": ["x", "y"] * 42 + ["x"]})
    model = sampled().fit_ratings(i, places, stars, user_features=ages)
    assert model.users_.tolist() == [*np.unique(i), *range(80, 85)]
    assert np.isfinite(model.predict(84, 3))
    assert model.recommend(84, 3)[0].size == 3


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, 2.0]], "must be a DataFrame whose index, or first column in polars, has the ids"),
        (np.array([["a"]]), "must hold numbers"),
        (np.array([[np.nan]]), "must be finite: fill in"),
        (pd.DataFrame({"a": [1.0, 2.0]}, index=[0, 0]), "more than one row for 0"),
        (pd.DataFrame({"a": [1.0, np.nan]}), "no number in the column 'a' of 1"),
        (pd.DataFrame(index=[1, 2]), "is empty"),
        (pd.DataFrame({"a": [1.0]}, index=["x"]), "ids in the type that they had in the fit"),
    ],
)
def test_features_that_are_none(features, message):
    with pytest.raises(ValueError, match=message):
        sampled().fit_ratings(I, J, STARS, user_features=features)
    with pytest.raises(ValueError, match="features of users and items are for method='gibbs'"):
        MatrixFactorization().fit_ratings(I, J, STARS, user_features=features)


# --- the choice of rated items -----------------------------------------------------------------


def with_habits():
    """Users whose biases depend on which items they have rated: Σy/√N, with noise of a third of
    that size. Half of the users have about four ratings.
    """
    rng, n, m = np.random.default_rng(5), 400, 60
    y = rng.normal(size=m)
    seen = rng.random((n, m)) < np.where(np.arange(n) < n // 2, 0.4, 0.05)[:, None]
    seen[np.arange(n), rng.integers(0, m, n)] = True
    habit = (seen @ y) / np.sqrt(seen.sum(axis=1))
    truth = 3 + (habit + 0.3 * rng.normal(size=n))[:, None] + 0.5 * rng.normal(size=(1, m))
    return truth + 0.8 * rng.normal(size=(n, m)), truth, seen, y


def test_what_a_user_has_rated_at_all_counts():
    X, truth, seen, y = with_habits()
    i, j = np.nonzero(seen)
    options = {"n_draws": 60, "n_warmup": 30, "random_state": 0, "bounds": None}
    errors = {}
    for implicit in (True, False):
        model = MatrixFactorization("gibbs", implicit=implicit, n_components=0, **options)
        model.fit_ratings(i, j, X[i, j])
        late = model.users_[200:]
        found, std = model.predict(late[:, None], model.items_, return_std="mean")
        off = found - truth[np.ix_(late, model.items_)]
        errors[implicit] = np.sqrt(np.mean(off**2))
        assert 0.85 < np.mean(np.abs(off) < 1.645 * std) < 0.95
        if implicit:
            found = model.draws_.row_implicit[:, :, -1].mean(axis=0)
            assert np.corrcoef(found, y)[0, 1] > 0.9
    assert errors[True] < 0.75 * errors[False]


@pytest.mark.filterwarnings("ignore:.* not in the fit")
def test_someone_new_is_expected_to_be_like_those_who_rate_the_same():
    X, _, seen, y = with_habits()
    i, j = np.nonzero(seen)
    model = sampled(bounds=None, n_components=0).fit_ratings(i, j, X[i, j])
    for user in (7, 300):
        mine = np.flatnonzero(seen[user])
        mean, std = model.predict_new(mine, X[user, mine], return_std="mean")
        expected, spread = model.predict(user, model.items_, return_std="mean")
        np.testing.assert_allclose(mean, expected, atol=0.15)
        np.testing.assert_allclose(std, spread, rtol=0.35)
    # Uninformative ratings, of items whose raters give the most stars or the fewest.
    most, least = np.argsort(-y)[:3], np.argsort(y)[:3]
    high, low = (model.predict_new(some, model.predict(-1, some)).mean() for some in (most, least))
    assert high > low + 0.5


def test_whose_habits_are_not_known_is_uncertain():
    """Predictions for a user without ratings, or unknown to the fit, are as uncertain as habits
    vary.
    """
    X, _, seen, _ = with_habits()
    seen[-40:] = False
    i, j = np.nonzero(seen)
    model = sampled(bounds=None, n_components=0, n_draws=200).fit_ratings(
        i, j, X[i, j], user_features=pd.DataFrame({"nothing": np.arange(400) % 2.0})
    )
    _, std = model.predict(np.arange(360, 400)[:, None], model.items_, return_std=True)
    # Variances are 1 for habits, 0.3² for the rest of the biases, and 0.8² for the noise.
    assert np.median(std) == pytest.approx(np.sqrt(1 + 0.09 + 0.64), rel=0.15)
    with pytest.warns(UserWarning, match="not in the fit"):
        _, wide = model.predict(-1, model.items_, return_std=True)
    np.testing.assert_allclose(wide, np.median(std, axis=0), rtol=0.15)


def test_implicit_is_for_draws():
    with pytest.raises(ValueError, match="implicit=True needs method='gibbs'"):
        MatrixFactorization(implicit=True).fit_ratings(I, J, STARS)
    assert MatrixFactorization(implicit=False).fit_ratings(I, J, STARS).draws_ is None


# --- times -------------------------------------------------------------------------------------


def drifting():
    """Users who rate in three sessions, each in a different mood."""
    rng, n, m = np.random.default_rng(11), 120, 60
    i, j = np.nonzero(rng.random((n, m)) < 0.5)
    session = rng.integers(0, 3, i.size)
    times = 1e9 + session * 40 * 86400.0 + rng.integers(0, 1800, i.size)
    mood = 0.8 * rng.normal(size=(n, 3))
    truth = 3 + rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(1, m))
    truth = truth[i, j] + mood[i, session]
    return i, j, truth + 0.7 * rng.normal(size=i.size), times, truth


@pytest.fixture(scope="module")
def moody():
    i, j, x, times, truth = drifting()
    held = np.random.default_rng(1).random(i.size) < 0.3
    model = sampled(bounds=None, n_components=0, n_warmup=30)
    model.fit_ratings(i[~held], j[~held], x[~held], times=times[~held])
    return model, (i[held], j[held], x[held], times[held], truth[held])


def test_drifts_of_users_are_found(moody):
    model, (i, j, x, times, truth) = moody
    mean, std = model.predict(i, j, return_std="mean", times=times)
    rough = np.sqrt(np.mean((model.predict(i, j) - truth) ** 2))
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.45 * rough
    assert 0.86 < np.mean(np.abs(mean - truth) < 1.645 * std) < 0.94
    mean, std = model.predict(i, j, return_std=True, times=times)
    assert 0.88 < np.mean(np.abs(mean - x) < 1.645 * std) < 0.92
    # The variances of all levels add up to that of the moods, 0.64.
    drift = model.draws_.drift
    assert drift.prior.mean(axis=0).sum() * model.draws_.unit**2 == pytest.approx(0.64, rel=0.25)
    # A mood at a time far from all ratings has the variance of all moods.
    away, wide = model.predict(i, j, return_std=True, times=times.max() + 1e7)
    none, same = model.predict(i, j, return_std=True)
    np.testing.assert_allclose(away, none)
    np.testing.assert_allclose(wide, same)
    assert 0.86 < np.mean(np.abs(none - x) < 1.645 * same) < 0.94


def test_times_in_other_units_and_dates_are_the_same(moody):
    model, (i, j, _, when, _) = moody
    a, b, x, times, _ = drifting()
    held = np.random.default_rng(1).random(a.size) < 0.3
    dates = (times * 1e6).astype("datetime64[us]")
    other = sampled(bounds=None, n_components=0, n_warmup=30)
    other.fit_ratings(a[~held], b[~held], x[~held], times=pd.Series(dates[~held]))
    asked = (when * 1e6).astype("datetime64[us]")
    np.testing.assert_array_equal(other.predict(i, j, times=asked), model.predict(i, j, times=when))
    assert np.ndim(model.predict(3, 4, times=1e9)) == 0


def test_someone_new_has_unknown_moods(moody):
    model, _ = moody
    i, j, x, _, _ = drifting()
    mine = i == 5
    mean, std = model.predict_new(j[mine], x[mine], return_std=True)
    assert mean.mean() == pytest.approx(x[mine].mean(), abs=0.3)
    _, known = model.predict(5, model.items_, return_std=True)
    np.testing.assert_allclose(std, known, rtol=0.15)


def test_files_hold_drifts(moody, tmp_path):
    model, (i, j, _, times, _) = moody
    model.save(tmp_path / "m.bpca")
    loaded = load(tmp_path / "m.bpca")
    for one, other in zip(
        loaded.predict(i, j, return_std=True, times=times),
        model.predict(i, j, return_std=True, times=times),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_times_that_are_none(model, moody):
    i, j, x, times, _ = drifting()
    for wrong, message in (
        (times[:-1], "as long as ratings"),
        (np.full(times.size, 7.0), "all the same"),
        (np.where(np.arange(times.size) == 3, np.nan, times), "finite, but there is nan at pos"),
        (np.full(times.size, "NaT", dtype="datetime64[s]"), "no value at position 0"),
        (["soon"] * times.size, "times must be numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            sampled().fit_ratings(i, j, x, times=wrong)
    with pytest.raises(ValueError, match="times of ratings are for method='gibbs'"):
        MatrixFactorization().fit_ratings(i, j, x, times=times)
    with pytest.raises(ValueError, match="fitted without times"):
        model.predict(0, 0, times=3.0)
    with pytest.raises(ValueError, match="one for all pairs or one for each"):
        moody[0].predict([0, 1], [0, 1], times=[1.0, 2.0, 3.0])


def kinds_as(what, frame, ids):
    """The column of item kinds in another container or encoding."""
    kinds = frame["kind"].to_numpy()
    hot = (kinds[:, None] == np.unique(kinds)).astype(float)
    pairs = {"a": "x|y", "b": "y|z", "c": "z|x"}
    return {
        "pandas": frame,
        "polars": pl.DataFrame({"id": ids, "kind": kinds.tolist()}),
        "categories": frame.astype("category"),
        "numbers": pd.DataFrame(hot, index=ids),
        "sparse frame": pd.DataFrame.sparse.from_spmatrix(sp.csr_array(hot), index=ids),
        "columns": FeatureColumns(np.array(ids, dtype=object), {"kind": [(k,) for k in kinds]}),
        "text of lists": frame.assign(kind=[pairs[k] for k in kinds]),
        "lists": frame.assign(kind=[pairs[k].split("|") for k in kinds]),
        "lists in polars": pl.DataFrame(
            {"id": ids, "kind": [pairs[k].split("|") for k in kinds.tolist()]}
        ),
    }[what]


def quick():
    return sampled(n_draws=4, n_warmup=2)


def answers(features):
    i, items, _, stars, _ = with_kinds()
    model = quick().fit_ratings(i, items, stars, item_features=features)
    return model.predict(0, sorted(model.items_.tolist()))


@pytest.mark.parametrize(
    ("whats", "tolerance"),
    [
        (("pandas", "polars", "categories", "columns", "numbers"), 0.0),
        # Sparse numbers are centred within products, which rounds differently.
        (("numbers", "sparse frame"), 1e-6),
        (("text of lists", "lists", "lists in polars"), 0.0),
    ],
)
def test_features_of_one_meaning_have_one_answer(whats, tolerance):
    frame = with_kinds()[-1]
    ids = frame.index.tolist()
    first, *others = (answers(kinds_as(what, frame, ids)) for what in whats)
    for other in others:
        assert other == pytest.approx(first, abs=tolerance)


@pytest.mark.parametrize("turned", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_features_of_a_matrix_are_in_its_order(turned):
    i, items, _, stars, frame = with_kinds()
    j = np.array([int(item.split()[1]) for item in items])
    hot = (frame["kind"].to_numpy()[:, None] == ["a", "b", "c"]).astype(float)
    X = np.full((80, 60), np.nan)
    X[i, j] = stars
    model = quick().fit(X, item_features=turned(hot))
    other = quick().fit_ratings(i, j, stars, item_features=pd.DataFrame(hot))
    assert model.predict(0, 59) == pytest.approx(other.predict(0, 59), abs=1e-6)
    labels = [f"item {k}" for k in range(60)]
    named = quick().fit(pd.DataFrame(X, columns=labels), item_features=frame.iloc[::-1])
    assert named.predict(0, "item 59") == pytest.approx(other.predict(0, 59), abs=1e-6)
    with pytest.raises(ValueError, match="item_features has 59 rows, but X has 60 columns"):
        quick().fit(X, item_features=hot[:59])
    with pytest.raises(ValueError, match="row i of item_features is that of the id i"):
        quick().fit_ratings(i, items, stars, item_features=hot)


def as_dense(cells):
    found = np.zeros(cells.shape)
    cells = cells.tocoo()
    found[cells.coords] = cells.data
    return found


def test_sparse_features_stay_sparse(monkeypatch):
    """Each user has one of 300 cities; a third of the users have no ratings."""
    rng, n, p = np.random.default_rng(0), 3000, 300
    i, j = np.divmod(rng.choice(2000 * 50, 20_000, replace=False), 50)
    city = rng.integers(0, p - 2, n)
    cities = sp.csr_array((np.ones(n), (np.arange(n), city)), (n, p))
    liking = rng.normal(size=p)
    made = []
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        monkeypatch.setattr(
            kind, "toarray", lambda self, *_, **__: made.append(self.shape) or as_dense(self)
        )
    stars = liking[city[i]] + rng.normal(size=i.size)
    model = sampled(n_draws=10).fit_ratings(i, j, stars, user_features=cities)
    assert max(shape[0] for shape in made) <= p
    found = model.predict(np.arange(2000, n), 0)
    assert np.corrcoef(found, liking[city[2000:]])[0, 1] > 0.8

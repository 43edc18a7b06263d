"""Ratings on Dask: fits equal those in memory, and predictions are lazy."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayespca
from bayespca import MatrixFactorization
from bayespca.sources.cluster import ClusterError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")


def table(n=120, m=25, rank=2, *, seed=0, share=0.35):
    """Ratings in random order, with ids of users and items that are not their positions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 0.5 * rng.normal(size=(n, m))
    X += 3 + 0.5 * rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=m)
    users, items = np.nonzero(rng.random(X.shape) < share)
    order = rng.permutation(users.size)
    users, items = users[order], items[order]
    return pd.DataFrame({"who": 7 * users + 3, "what": items + 100, "mark": X[users, items]})


def fitted(frame, **options):
    return MatrixFactorization(**options).fit_ratings(frame["who"], frame["what"], frame["mark"])


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_same(found, expected, frame, *, rtol=1e-8):
    assert found.n_components_ == expected.n_components_
    assert found.n_iter_ == expected.n_iter_
    assert found.n_ratings_ == expected.n_ratings_
    assert found.bounds_ == expected.bounds_
    assert found.status_ == expected.status_
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=rtol)
    assert_allclose(found.free_energy_, expected.free_energy_, rtol=rtol)
    assert_allclose(found.mean_, expected.mean_, rtol=rtol)
    # The two models may list users in different orders; compare them in that of `expected`.
    users = expected.users_[:, None]
    assert_array_equal(np.sort(found.users_), np.sort(expected.users_))
    assert_array_equal(found.items_, expected.items_)
    for one, other in zip(
        found.predict(users, found.items_, return_std=True),
        expected.predict(users, found.items_, return_std=True),
        strict=True,
    ):
        assert_allclose(one, other, rtol=rtol, atol=rtol)
    for user in expected.users_[:5]:
        assert_array_equal(found.recommend(user, 4)[0], expected.recommend(user, 4)[0])


OPTIONS = [
    {},
    {"biases": False},
    {"method": "epb"},
    {"method": "emap"},
    {"n_components": 1},
    {"n_components": 0},
    {"noise_variance": 0.3},
    {"init": "random", "random_state": 0, "n_init": 2},
    {"bounds": (0, 6)},
    {"method": "epb", "biases": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_fit_in_memory(options, synchronous):
    frame = table()
    found = fitted(dd.from_pandas(frame, npartitions=3), **options)
    assert_same(found, fitted(frame, **options), frame)
    assert_array_equal(found.users_, np.sort(found.users_))


@pytest.mark.parametrize("npartitions", [1, 7])
def test_partitions_change_nothing(npartitions, synchronous):
    frame = table()
    given = dd.from_pandas(frame, npartitions=npartitions)
    # Add an empty partition.
    given = dd.concat([given, given[given["what"] < 0]])
    found = fitted(given)
    assert_same(found, fitted(frame), frame)


def test_more_items_than_users(synchronous):
    frame = table(20, 60)
    assert_same(fitted(dd.from_pandas(frame, npartitions=3)), fitted(frame), frame)


def test_hardly_any_items(synchronous):
    frame = table(60, 3, 1)
    assert_same(fitted(dd.from_pandas(frame, npartitions=3)), fitted(frame), frame)


def test_float32_halves_what_is_stored(synchronous):
    frame = table()
    found = fitted(dd.from_pandas(frame, npartitions=3), dtype="float32")
    assert found.user_factors_.dtype == np.float32
    assert_same(found, fitted(frame, dtype="float32"), frame, rtol=1e-5)


def test_names_and_a_scale(synchronous):
    frame = table()
    frame["who"] = "user " + frame["who"].astype(str)
    frame["what"] = "item " + frame["what"].astype(str)
    frame["mark"] = frame["mark"].round().clip(1, 5)
    found = fitted(dd.from_pandas(frame, npartitions=4))
    assert found.bounds_ == (1.0, 5.0)
    assert_same(found, fitted(frame), frame)


def test_duplicates_are_averaged_and_told(synchronous):
    frame = table()
    twice = pd.concat([frame, frame.iloc[:9].assign(mark=0.0)], ignore_index=True)
    given = dd.from_pandas(twice, npartitions=4)
    with pytest.warns(UserWarning, match="9 ratings repeat a"):
        found = fitted(given)
    with pytest.warns(UserWarning, match="9 ratings repeat a"):
        expected = fitted(twice)
    assert found.n_duplicates_ == 9
    assert_same(found, expected, twice)


@pytest.mark.filterwarnings("ignore:.* not in the fit")
def test_predictions_are_lazy(synchronous):
    frame = table()
    given = dd.from_pandas(frame, npartitions=3)
    model = fitted(given)
    strangers = given.assign(who=given["who"] + 1)
    for pairs, rows in ((given, frame), (strangers, frame.assign(who=frame["who"] + 1))):
        for return_std in (False, True, "mean"):
            found = model.predict(pairs["who"], pairs["what"], return_std=return_std)
            expected = model.predict(rows["who"], rows["what"], return_std=return_std)
            parts = found if return_std else (found,)
            assert all(isinstance(part, da.Array) for part in parts)
            assert_array_equal(dask.compute(*parts), expected if return_std else (expected,))


def test_a_model_in_memory_predicts_on_dask_and_files_hold_a_distant_one(synchronous, tmp_path):
    frame = table()
    given = dd.from_pandas(frame, npartitions=3)
    here, distant = fitted(frame), fitted(given)
    found = here.predict(given["who"], given["what"]).compute()
    assert_array_equal(found, here.predict(frame["who"], frame["what"]))
    distant.save(tmp_path / "model.bpca")
    again = bayespca.load(tmp_path / "model.bpca")
    pairs = frame["who"], frame["what"]
    assert_array_equal(again.predict(*pairs), distant.predict(*pairs))


def test_a_fit_that_was_broken_off_is_taken_up(tmp_path, monkeypatch, synchronous):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    frame = table()
    given = dd.from_pandas(frame, npartitions=3)
    columns, seen = (given["who"], given["what"], given["mark"]), []

    def breaks(number, info):
        if number == 4:
            raise KeyboardInterrupt

    model = MatrixFactorization(checkpoint=tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        model.fit_ratings(*columns, callback=breaks)
    assert not hasattr(model, "users_")
    model.fit_ratings(*columns, callback=lambda number, info: seen.append(number))
    assert seen[0] == 4
    assert_same(model, fitted(frame), frame)


def without(frame, column, value):
    """The frame with `value` in the fifth row of a column."""
    changed = frame.astype({column: object}) if isinstance(value, str) else frame.copy()
    changed.loc[4, column] = value
    return changed


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: without(f, "mark", np.nan), ValueError, "nan at position 4 of partition 0"),
        (lambda f: without(f, "mark", np.inf), ValueError, "inf at position 4 of partition 0"),
        (
            lambda f: without(f.astype({"who": float}), "who", np.nan),
            ValueError,
            "users of partition 0 has no id at position 4",
        ),
        (
            lambda f: without(f.astype({"what": float}), "what", np.nan),
            ValueError,
            "items of partition 0 has no id at position 4",
        ),
        (lambda f: f[f["what"] < 0], ValueError, "there are no ratings"),
    ],
)
def test_what_are_no_ratings(change, error, message, synchronous):
    given = dd.from_pandas(change(table()), npartitions=2)
    model = MatrixFactorization()
    with pytest.raises(error, match=message):
        model.fit_ratings(given["who"], given["what"], given["mark"])
    assert not hasattr(model, "users_")


def test_columns_of_which_some_are_not_on_dask(synchronous):
    frame = table()
    given = dd.from_pandas(frame, npartitions=2)
    model = MatrixFactorization()
    with pytest.raises(TypeError, match="items is a Series, but other columns are Dask's"):
        model.fit_ratings(given["who"], frame["what"], given["mark"])
    with pytest.raises(TypeError, match="where data must be in memory"):
        model.fit(given)


# --- schedulers --------------------------------------------------------------------------------


def test_threads():
    frame = table()
    with dask.config.set(scheduler="threads"):
        found = fitted(dd.from_pandas(frame, npartitions=4))
    assert_same(found, fitted(frame), frame)


def test_processes_a_worker_that_is_killed_and_a_scheduler_that_is_lost():
    frame = table()
    # This start needs few passes.
    options = {"n_components": 2, "init": "random", "random_state": 0}
    expected = fitted(frame, **options)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        given = dd.from_pandas(frame, npartitions=3)
        columns = given["who"], given["what"], given["mark"]

        def kills(number, info):
            if number == 2:
                os.kill(victim, signal.SIGKILL)

        model = MatrixFactorization(**options).fit_ratings(*columns, callback=kills)
        assert victim not in client.run(os.getpid).values()
        found = model.predict(given["who"], given["what"]).compute()

        def closes(number, info):
            if number == 2:
                cluster.close()

        lost = MatrixFactorization(**options)
        with pytest.raises(ClusterError, match="connection to the Dask scheduler was lost"):
            lost.fit_ratings(*columns, callback=closes)
    assert not hasattr(lost, "users_")
    assert_same(model, expected, frame)
    assert_allclose(found, expected.predict(frame["who"], frame["what"]), rtol=1e-8)

"""`bayespca ratings --user-features`: files that describe users and items, matched by ids."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from bayespca import MatrixFactorization, load

from .installed import printed_inside, run_inside

# The chains are kept short for speed.
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")
SHORT = ("--n-draws", "10")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Ratings of 20 items of two kinds by 26 users; u.csv describes four more users."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind, likes = np.arange(20) % 2, np.where(np.arange(30) % 2, 1.5, -1.5)
    X = 3 + likes[:, None] * (kind - 0.5) + 0.2 * rng.normal(size=(30, 20))
    i, j = np.nonzero(rng.random((26, 20)) < 0.7)
    stars = np.clip(np.round(X[i, j]), 1, 5)
    pd.DataFrame({"userId": i + 100, "movieId": j, "rating": stars}).to_csv("r.csv", index=False)
    ids = np.arange(30) + 100
    users = pd.DataFrame({"userId": ids, "odd": np.where(ids % 2, "yes", "no"), "age": ids % 7})
    users.to_csv("u.csv", index=False)
    genres = np.where(kind, "Drama|Romance", "Action|Comedy")
    pd.DataFrame({"movieId": np.arange(20), "genres": genres}).to_csv("i.csv", index=False)
    return tmp_path


def test_a_fit_with_features_is_that_of_python(folder):
    features = ("--user-features", "u.csv", "--item-features", "i.csv")
    out, _ = printed_inside("ratings", "r.csv", *features, *SHORT, "--save", "m.bpca", "--json")
    told, model, rated = json.loads(out), load("m.bpca"), pd.read_csv("r.csv")
    assert told["method"] == "gibbs"
    assert any("u.csv: ids are in the column 'userId'" in note for note in told["notes"])
    assert any("4 users of u.csv have no ratings" in note for note in told["notes"])
    users, items = (pd.read_csv(name, index_col=0) for name in ("u.csv", "i.csv"))
    same = MatrixFactorization("gibbs", n_draws=10, random_state=0)
    same.fit_ratings(
        *rated.to_numpy().T[:2].astype(int),
        rated["rating"],
        user_features=users,
        item_features=items,
    )
    assert model.users_.tolist() == same.users_.tolist()
    assert model.predict(129, 3) == same.predict(129, 3)


def test_people_without_ratings_are_answered_by_what_is_known_of_them(folder):
    run_inside("ratings", "r.csv", "--user-features", "u.csv", *SHORT, "--save", "m.bpca")
    (folder / "p.csv").write_text("user,item\n" + "".join(f"129,{j}\n128,{j}\n" for j in range(20)))
    out, _ = printed_inside("predict", "m.bpca", "p.csv")
    found = pd.read_csv(io.StringIO(out))
    assert set(found["known"]) == {"both"}
    table = found.pivot_table(index="user", columns="item", values="prediction").to_numpy()
    # User 129 is odd, and odd users like odd items.
    assert np.mean(table[1, 1::2]) > np.mean(table[1, ::2]) + 1
    assert np.mean(table[0, 1::2]) < np.mean(table[0, ::2]) - 1
    best, _ = printed_inside("recommend", "m.bpca", "--user", 129, "-n", 5)
    assert (pd.read_csv(io.StringIO(best))["item"] % 2 == 1).all()


def test_ids_that_are_text_and_who_is_missing(folder):
    rated = pd.read_csv("r.csv").astype({"userId": str})
    rated["userId"] = "u" + rated["userId"]
    rated.to_csv("named.csv", index=False)
    users = pd.read_csv("u.csv").iloc[2:26].astype({"userId": str})
    users["userId"] = "u" + users["userId"]
    users.to_csv("few.csv", index=False)
    said = run_inside("ratings", "named.csv", "--user-features", "few.csv", *SHORT)
    assert "2 users of the ratings are not in few.csv, so the average features" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--user-features", "no.csv"), "no.csv does not exist"),
        (("--user-features", "u.csv", "--method", "evb"), "are for --method gibbs, not evb"),
        (("--user-features", "named.csv"), "has the id 'ann' in the column 'user'"),
        (("--user-features", "others.csv"), "no user of the ratings is in others.csv"),
        (("--user-features", "u.csv", "--save", "u.csv"), "u.csv"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(options, message, folder):
    (folder / "named.csv").write_text("user,age\nann,3\nbob,4\n")
    (folder / "others.csv").write_text("user,age\n7,3\n8,4\n")
    assert message in run_inside("ratings", "r.csv", *options, *SHORT, rc=1)


def test_a_model_has_the_features_that_it_was_fitted_with(folder):
    run_inside("ratings", "r.csv", "--save", "m.bpca")
    said = run_inside("ratings", "m.bpca", "--user-features", "u.csv", "--recommend", 3, rc=1)
    assert "m.bpca holds a model: features and --times are for fits" in said

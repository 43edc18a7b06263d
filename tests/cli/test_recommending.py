"""`bayespca predict` and `bayespca recommend`: from a saved model of ratings to answers."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from bayespca import MatrixFactorization, load
from bayespca.cli.rating_answers import _is_whole

from .installed import printed_inside


def read(text):
    return pd.read_csv(io.StringIO(text))


def simulated():
    rng = np.random.default_rng(0)
    X = 3 + rng.normal(size=(30, 1)) @ rng.normal(size=(1, 20)) + 0.5 * rng.normal(size=(30, 1))
    i, j = np.nonzero(rng.random(X.shape) < 0.6)
    return i + 100, j, np.clip(np.round(X + 0.3 * rng.normal(size=(30, 20)))[i, j], 1, 5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two models of the same ratings: m.bpca with numeric ids, n.bpca with names."""
    monkeypatch.chdir(tmp_path)
    users, items, stars = simulated()
    MatrixFactorization().fit_ratings(users, items, stars).save("m.bpca")
    named = [f"u{u}" for u in users], [f"film {j}" for j in items]
    MatrixFactorization().fit_ratings(*named, stars).save("n.bpca")
    return tmp_path


@pytest.fixture
def model(folder):
    return load("m.bpca")


def test_predictions_of_a_saved_model(folder, model):
    (folder / "p.csv").write_text("user,item\n100,3\n101,4\n999,5\n100,77\n999,77\nann,3\n")
    out, said = printed_inside("predict", "m.bpca", "p.csv")
    found = read(out)
    assert found.columns.tolist() == ["user", "item", "prediction", "std", "known"]
    assert found["known"].tolist() == ["both", "both", "item", "user", "neither", "item"]
    with pytest.warns(UserWarning, match="not in the fit"):
        mean, std = model.predict([100, 101, 999, 100, 999, -1], [3, 4, 5, 77, 77, 3], True)
    np.testing.assert_allclose(found["prediction"], mean)
    np.testing.assert_allclose(found["std"], std)
    assert "2 users were not in the fit (999, ann)" in said
    assert "1 item was not in the fit (77)" in said
    assert "Ids of the users of the fit are numbers, as 100." in said
    _, said = printed_inside("predict", "m.bpca", "p.csv", "-o", "out.parquet")
    assert "note" not in said
    assert pd.read_parquet("out.parquet")["known"].tolist() == found["known"].tolist()
    as_json = json.loads(printed_inside("predict", "m.bpca", "p.csv", "--json")[0])
    assert as_json["known"] == found["known"].tolist()
    assert len(as_json["notes"]) == 2


def test_ids_are_taken_as_they_are_written(folder):
    """A text file has no types, yet 007 is not 7, and the id 100 may be a number or a text."""
    assert [_is_whole(text) for text in ("7", "-7", "0", "007", "7.0", "-0", "seven", "")] == [
        *(True, True, True),
        *(False, False, False, False, False),
    ]
    (folder / "p.csv").write_text("user,item\n0100,3\n100,3\nx,3\n")
    out, said = printed_inside("predict", "m.bpca", "p.csv")
    assert read(out)["known"].tolist() == ["item", "both", "item"]
    assert "(0100, x)" in said
    (folder / "q.csv").write_text("user,item\nu100,film 3\n100,film 3\n")
    out, said = printed_inside("predict", "n.bpca", "q.csv")
    assert read(out)["known"].tolist() == ["both", "item"]
    assert "Ids of the users" not in said


def test_recommendations_of_a_saved_model(folder, model):
    out, said = printed_inside("recommend", "m.bpca", "--user", 104, "--user", 110, "-n", 3)
    found = read(out)
    for user in (104, 110):
        items, mean, std = model.recommend(user, 3, return_std=True)
        mine = found[found["user"] == user]
        assert mine["item"].tolist() == items.tolist()
        np.testing.assert_allclose(mine["prediction"], mean)
        np.testing.assert_allclose(mine["std"], std)
    assert (found["known"] == "both").all()
    assert not said
    assert read(printed_inside("recommend", "m.bpca", "-n", 1)[0])["user"].nunique() == 30
    out, said = printed_inside("recommend", "m.bpca", "--user", "nobody", "--user", 104, "-n", 1)
    assert read(out)["known"].tolist() == ["item", "both"]
    assert "1 user was not in the fit (nobody)" in said
    out, _ = printed_inside("recommend", "n.bpca", "--user", "u104")
    assert len(read(out)) == min(10, 20 - np.sum(simulated()[0] == 104))


def test_recommendations_for_people_who_were_not_there(folder, model):
    (folder / "new.csv").write_text("user,item,rating\nzoe,3,5\nzoe,4,1\nyan,7,2\nyan,99,4\n")
    out, said = printed_inside("recommend", "m.bpca", "--new", "new.csv", "-n", 2)
    found = read(out)
    assert found["user"].tolist() == ["zoe", "zoe", "yan", "yan"]
    items, mean = model.recommend_new([3, 4], [5.0, 1.0], 2)
    assert found["item"].tolist()[:2] == items.tolist()
    np.testing.assert_allclose(found["prediction"][:2], mean)
    assert (found["known"] == "both").all()
    assert "new.csv: skipped 1 rating of items" in said
    (folder / "mine.csv").write_text("item,rating\n3,5\n4,1\n")
    alone = read(printed_inside("recommend", "m.bpca", "--new", "mine.csv", "-n", 2)[0])
    assert alone["user"].tolist() == ["new", "new"]
    np.testing.assert_allclose(alone["prediction"], mean)
    named = "item,rating\nfilm 3,5\nfilm 4,1\n"
    (folder / "named.csv").write_text(named)
    by_name = read(printed_inside("recommend", "n.bpca", "--new", "named.csv", "-n", 2)[0])
    assert by_name["item"].tolist() == [f"film {j}" for j in items]


def test_predictions_for_people_who_were_not_there(folder, model):
    (folder / "new.csv").write_text("user,item,rating\nzoe,3,5\nzoe,4,1\n")
    (folder / "p.csv").write_text("user,item\nzoe,7\n100,7\nzoe,9\nmax,7\nzoe,99\n")
    out, said = printed_inside("predict", "m.bpca", "p.csv", "--new", "new.csv")
    found = read(out)
    mean, std = model.predict_new([3, 4], [5.0, 1.0], [7, 9], return_std=True)
    np.testing.assert_allclose(found["prediction"][[0, 2]], mean)
    np.testing.assert_allclose(found["std"][[0, 2]], std)
    assert found["prediction"][1] == pytest.approx(model.predict(100, 7))
    assert found["known"].tolist() == ["both", "both", "both", "item", "user"]
    assert "1 user was not in the fit (max)" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("predict m.bpca none.csv", "none.csv does not exist"),
        ("predict p.csv p.csv", "p.csv"),
        ("predict m.bpca p.csv -o p.csv", "--out would write p.csv over the file that PAIRS names"),
        ("predict m.bpca p.csv --new n.csv -o n.csv", "over the file that --new names"),
        ("recommend m.bpca --user 104 --new n.csv", "give only one of them"),
        ("recommend m.bpca --new p.csv", "rating"),
        ("recommend m.bpca -o out.doc", "not one that can be written"),
        ("transform m.bpca p.csv", "use bayespca predict or recommend or ratings instead"),
    ],
)
def test_mistakes(arguments, message, folder):
    (folder / "p.csv").write_text("user,item\n100,3\n")
    (folder / "n.csv").write_text("user,item,rating\nzoe,3,5\n")
    assert message in printed_inside(*arguments.split(), rc=1)[1]

"""`bayespca ratings`: files of ratings in, predictions and recommendations out."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from bayespca import MatrixFactorization, load

from .installed import output_inside


def ratings(*arguments, rc=0):
    return output_inside("ratings", *arguments, rc=rc)


def simulated(n=30, m=20):
    rng = np.random.default_rng(0)
    X = 3 + rng.normal(size=(n, 1)) @ rng.normal(size=(1, m)) + 0.5 * rng.normal(size=(n, 1))
    i, j = np.nonzero(rng.random(X.shape) < 0.6)
    return i + 100, j, np.clip(np.round(X + 0.3 * rng.normal(size=(n, m)))[i, j], 1, 5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    users, items, stars = simulated()
    with open("u.data", "w") as file:
        for row in zip(users, items, stars.astype(int), strict=True):
            file.write("\t".join(map(str, row)) + "\t881250949\n")
    with open("ratings.dat", "w") as file:
        for row in zip(users, items, stars.astype(int), strict=True):
            file.write("::".join(map(str, row)) + "::881250949\n")
    table = pd.DataFrame({"userId": users, "movieId": items, "rating": stars})
    table.to_csv("ratings.csv", index=False)
    named = table.assign(userId=[f"u{u}" for u in users])
    named.columns = ["who", "what", "how"]
    named.assign(more=1, still=2).to_csv("named.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def expected():
    return MatrixFactorization().fit_ratings(*simulated())


@pytest.mark.parametrize("name", ["u.data", "ratings.dat", "ratings.csv"])
def test_every_format_is_the_same_fit(name, folder, expected):
    found = json.loads(ratings(name, "--json"))
    assert found["n_ratings"] == expected.n_ratings_
    assert (found["n_users"], found["n_items"]) == (30, 20)
    assert found["rank"] == expected.n_components_
    assert found["noise_variance"] == pytest.approx(expected.noise_variance_)
    assert found["free_energy"] == pytest.approx(expected.free_energy_)
    assert (found["lowest"], found["highest"]) == (1, 5)
    assert found["seconds"] > 0


def test_the_screen(folder, expected):
    text = ratings("u.data", "--save", "m.bpca")
    assert "ratings of 20 items by 30 users, method evb" in text
    assert f"components       {expected.n_components_}" in text
    assert f"standard deviation {np.sqrt(expected.noise_variance_):.4g}" in text
    assert "nats" in text
    assert f"mean rating      {simulated()[2].mean():.4g}" in text
    assert " MB" in text
    assert "The columns 0, 1, 2 were read as user, item and rating." in text
    assert "m.bpca" in text
    assert load("m.bpca").predict(100, 3) == pytest.approx(expected.predict(100, 3))


def test_predictions(folder, expected):
    pd.DataFrame({"user": [100, 101, "nobody"], "item": [3, 4, 5]}).to_csv("p.csv", index=False)
    with pytest.warns(UserWarning, match="1 user was not in"):
        mean, std = expected.predict([100, 101, 999], [3, 4, 5], return_std=True)
    note = "1 user was not in the fit (nobody): predictions for an unknown user"
    said, table = ratings("u.data", "--predict", "p.csv").split("\n", 1)
    assert said.startswith(f"note: {note}")
    printed = pd.read_csv(io.StringIO(table))
    assert printed.columns.tolist() == ["user", "item", "prediction", "std", "known"]
    assert printed["user"].tolist() == ["100", "101", "nobody"]
    assert printed["item"].tolist() == [3, 4, 5]
    assert printed["known"].tolist() == ["both", "both", "item"]
    assert "Ids of the users of the fit are numbers, as 100." in said
    np.testing.assert_allclose(printed["prediction"], mean)
    np.testing.assert_allclose(printed["std"], std)
    assert note in " ".join(ratings("u.data", "--predict", "p.csv", "-o", "out.parquet").split())
    np.testing.assert_allclose(pd.read_parquet("out.parquet")["std"], std)
    found = json.loads(ratings("u.data", "--predict", "p.csv", "--json"))
    np.testing.assert_allclose(found["prediction"], mean)
    assert found["notes"][-1].startswith(note)


def test_predictions_of_those_who_are_known_have_no_note(folder, expected):
    (folder / "p.csv").write_text("user,item\n100,3\n")
    assert ratings("u.data", "--predict", "p.csv").startswith(
        "user,item,prediction,std,known\n100,3,"
    )


def test_ids_that_look_like_numbers_are_found_among_strings(folder):
    text = "user,item,rating\n1,x,2\n2,x,3\na,y,4\n1,y,4\n"
    (folder / "r.csv").write_text(text)
    (folder / "p.csv").write_text("user,item\n1,x\n2,y\n")
    found = pd.read_csv(io.StringIO(ratings("r.csv", "--predict", "p.csv")))
    model = MatrixFactorization().fit_ratings(
        ["1", "2", "a", "1"], ["x", "x", "y", "y"], [2.0, 3, 4, 4]
    )
    np.testing.assert_allclose(found["prediction"], model.predict(["1", "2"], ["x", "y"]))
    with pytest.warns(UserWarning, match="1 user was not in"):
        _, std = model.predict("nobody", "x", return_std=True)
    assert found["std"][0] < std


def test_recommendations(folder, expected):
    printed = pd.read_csv(io.StringIO(ratings("u.data", "--recommend", 2)))
    assert printed["user"].nunique() == 30
    items, mean = expected.recommend(104, 2)
    mine = printed[printed["user"] == 104]
    assert mine["item"].tolist() == items.tolist()
    np.testing.assert_allclose(mine["prediction"], mean)
    said, table = ratings("u.data", "--recommend", 2, "--users", "104,nobody").split("\n", 1)
    assert said.startswith("note: 1 user was not in the fit (nobody)")
    some = pd.read_csv(io.StringIO(table))
    assert some["user"].tolist() == ["104", "104", "nobody", "nobody"]
    assert some["item"].tolist()[:2] == items.tolist()
    (folder / "users.txt").write_text("104\n105\n")
    ratings("u.data", "--recommend", 1, "--users", "users.txt", "-o", "best.csv")
    best = pd.read_csv("best.csv")
    assert best["user"].tolist() == [104, 105]
    assert best["item"][0] == items[0]


def test_columns_and_options(folder):
    text = ratings("named.csv", rc=1)
    assert "named.csv has the columns 'who', 'what', 'how', 'more', 'still'" in text
    assert "--columns" in text
    options = ("--method", "epb", "--components", 1, "--no-biases", "--bounds", "2,4")
    found = json.loads(ratings("named.csv", "--columns", "who,what,how", *options, "--json"))
    users, items, stars = simulated()
    model = MatrixFactorization("epb", n_components=1, biases=False, bounds=(2, 4))
    model.fit_ratings([f"u{u}" for u in users], items, stars)
    assert found["method"] == "epb"
    assert found["rank"] == model.n_components_ == 1
    assert found["free_energy"] == pytest.approx(model.free_energy_)
    assert (found["lowest"], found["highest"]) == (2, 4)
    assert any("EVB" in note.upper() for note in found["notes"])
    given = json.loads(ratings("u.data", "--noise-variance", 0.3, "--bounds", "none", "--json"))
    assert given["noise_variance"] == pytest.approx(0.3)
    assert given["lowest"] is None
    early = json.loads(ratings("u.data", "--max-iter", 1, "--tol", 0, "--json"))
    assert not early["converged"]
    assert any("--max-iter" in note for note in early["notes"])


def test_duplicates_are_told(folder):
    (folder / "twice.csv").write_text("user,item,rating\n1,1,2\n1,1,4\n2,1,3\n")
    assert "1 rating repeats a (user, item) pair" in " ".join(ratings("twice.csv").split())


@pytest.mark.parametrize(
    ("arguments", "rc", "message"),
    [
        (["none.data"], 1, "none.data does not exist"),
        (["u.data", "--users", "3"], 1, "give --recommend, too"),
        (["u.data", "-o", "x.csv"], 1, "give --predict or --recommend, too"),
        (["u.data", "--predict", "u.data", "--recommend", "2"], 1, "give one of them"),
        (["u.data", "--predict", "none.csv"], 1, "none.csv does not exist"),
        (["u.data", "--predict", "u.data", "-o", "x.doc"], 1, "not one that can be written"),
        (["u.data", "--save", "no/such/m"], 1, "does not exist"),
        (["u.data", "--recommend", "1", "--users", " , "], 1, "there are no users"),
        (["u.data", "--recommend", "0"], 2, "--recommend"),
        (["u.data", "--bounds", "5,1"], 2, "--bounds"),
        (["u.data", "--noise-variance", "0db"], 2, "--noise-variance"),
        (["u.data", "--components", "some"], 2, "--components"),
        (["u.data", "--method", "vb"], 2, "--method"),
    ],
)
def test_failures(arguments, rc, message, folder):
    assert message in ratings(*arguments, rc=rc)
    assert not (folder / "x.csv").exists()


def test_a_mistake_in_a_file_is_told_with_its_line(folder):
    (folder / "bad.csv").write_text("user,item,rating\n1,2,3\n1,4,good\n")
    assert "bad.csv, line 3, column 'rating': 'good' is not a number" in ratings("bad.csv", rc=1)
    told = json.loads(ratings("bad.csv", "--json", rc=1))
    assert "line 3" in told["error"]


def test_as_a_process(folder):
    done = subprocess.run(
        [sys.executable, "-m", "bayespca", "ratings", "u.data", "--recommend", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("user,item,prediction,std,known\n")
    assert done.stderr == ""


def test_the_page_of_ratings(folder):
    pytest.importorskip("plotly", reason="plotly is not installed")
    assert "report   r.html" in ratings("u.data", "--report", "r.html", "--save", "m.bpca")
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "of taste in these ratings" in page
    assert "u.data" in page
    found = json.loads(ratings("m.bpca", "--report", "saved.html", "--json"))
    assert found["written"] == {"report": "saved.html"}
    printed = ratings("m.bpca", "--recommend", 1, "--users", 104, "--report", "beside.html")
    assert printed.startswith("user,item,prediction,std,known\n104,")
    assert (folder / "beside.html").is_file()
    said = ratings("u.data", "--report", "u.data", rc=1)
    assert "--report would write u.data over the file that FILE names" in said


def test_a_seed_is_for_draws(folder):
    assert "--seed is for --method gibbs" in " ".join(ratings("u.data", "--seed", 3, rc=1).split())


def timed(folder):
    """Write ratings with times: as numbers in .inter and .data files, as dates in Parquet."""
    users, items, stars = simulated()
    when = 881250949 + 86400 * np.random.default_rng(1).integers(0, 3, users.size)
    names = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    table = pd.DataFrame(dict(zip(names, (users, items, stars, when), strict=True)))
    table.to_csv("t.inter", sep="\t", index=False)
    table.to_csv("t.data", sep="\t", index=False, header=False)
    table.columns = ["user", "item", "rating", "date"]
    table.assign(date=pd.to_datetime(when, unit="s")).to_parquet("t.parquet")
    table.drop(columns="rating").to_csv("pairs.csv", index=False)
    return users, items, stars, when


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_times_are_read(folder):
    users, items, stars, when = timed(folder)
    options = {"n_draws": 5, "n_components": 1, "random_state": 0}
    model = MatrixFactorization("gibbs", **options).fit_ratings(users, items, stars, times=when)
    expected = model.predict(users, items, times=when)
    assert np.abs(expected - model.predict(users, items)).max() > 0.01
    asked = ["--times", "--n-draws", 5, "--n-components", 1]
    for file in ("t.inter", "t.data"):
        ratings(file, *asked, "--predict", "pairs.csv", "-o", "p.csv")
        np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], expected, rtol=1e-6)
    said = ratings("t.parquet", *asked, "--save", "m.bpca")
    assert "user, item, rating, date were read as user, item, rating and time" in said
    np.testing.assert_allclose(load("m.bpca").predict(users, items, times=when), expected)
    said = ratings("ratings.csv", *asked, rc=1)
    assert "which of them are user, item, rating, time is not clear" in said
    assert "--times are for --method gibbs" in ratings(
        "t.inter", "--times", "--method", "evb", rc=1
    )
    assert "--times are for fits" in ratings("m.bpca", "--times", "--recommend", 2, rc=1)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_what_is_rated_at_all_may_be_left_out(folder):
    asked = ["u.data", "--method", "gibbs", "--n-draws", 5, "--n-components", 1]
    ratings(*asked, "--save", "with.bpca")
    ratings(*asked, "--no-implicit", "--save", "without.bpca")
    assert (load("with.bpca").implicit, load("without.bpca").implicit) == ("auto", False)
    assert "are for --method gibbs" in ratings("u.data", "--no-implicit", rc=1)

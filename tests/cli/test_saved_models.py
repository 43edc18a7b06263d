"""The installed command has a verb for every saved model, and uses the model without refitting."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayespca
from bayespca.cli.models import USES
from bayespca.datasets import low_rank
from bayespca.estimators._base import ESTIMATORS

from .installed import output, run

NAMES = [f"gene {j}" for j in range(6)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table for the fit, and a second one with its columns reversed, two extra, and a hole."""
    monkeypatch.chdir(tmp_path)
    table().to_csv("x.csv", index=False)
    turned = table()[[*NAMES[::-1]]].assign(kind="a", extra=np.arange(80.0))
    turned.iloc[3, 1] = np.nan
    turned.to_csv("y.csv", index=False)
    return tmp_path


def table():
    return pd.DataFrame(low_rank(80, 6, 2, random_state=0).X, columns=NAMES)


def test_every_estimator_has_a_verb():
    public = {name for name in ESTIMATORS if name in bayespca.__all__}
    assert public <= set(USES)
    assert all(USES[name].verbs() for name in public)


def test_a_saved_model_denoises_and_fills_without_a_new_fit(folder):
    output("fit", "x.csv", "--model", "m.bpca")
    output("denoise", "y.csv", "--model", "m.bpca", "-o", "clean.csv")
    output("impute", "y.csv", "--model", "m.bpca", "-o", "full.csv", "--std")
    model, given = bayespca.load("m.bpca"), pd.read_csv("y.csv")
    clean, full = pd.read_csv("clean.csv"), pd.read_csv("full.csv")
    assert list(clean.columns) == list(full.columns) == list(given.columns)
    expected = model.denoise(given[NAMES])
    np.testing.assert_allclose(clean[NAMES], expected, rtol=1e-9)
    assert full["gene 4"][3] == pytest.approx(model.impute(given[NAMES])[3, 4], rel=1e-9)
    rest = given.drop(columns="gene 4")
    pd.testing.assert_frame_equal(full.drop(columns="gene 4"), rest)
    assert pd.read_csv("full-std.csv")["gene 4"][3] > 0


def test_transform_takes_the_model_by_its_option(folder):
    output("fit", "x.csv", "--save", "m.bpca")
    assert output("transform", "x.csv", "--model", "m.bpca") == output(
        "transform", "m.bpca", "x.csv"
    )
    assert "give a model and data" in run("transform", "x.csv", rc=1)
    said = run("transform", "m.bpca", "x.csv", "--model", "m.bpca", rc=1)
    assert "leave one of them out" in said


@pytest.mark.parametrize("verb", ["transform", "denoise", "impute"])
def test_columns_that_are_missing_are_named(verb, folder):
    output("fit", "x.csv", "--model", "m.bpca")
    table().drop(columns=["gene 2", "gene 5"]).to_csv("z.csv", index=False)
    said = run(verb, "z.csv", "--model", "m.bpca", "-o", "out.csv", rc=1)
    assert "the table has no 'gene 2', 'gene 5' (2 of 6 columns are absent)" in said
    assert not (folder / "out.csv").exists()


def test_options_of_a_fit_are_not_ignored_beside_a_saved_model(folder):
    output("fit", "x.csv", "--model", "m.bpca")
    said = run("denoise", "x.csv", "--model", "m.bpca", "--scale", "-o", "c.csv", rc=1)
    assert "--scale is for a new fit" in said
    said = run("impute", "x.csv", "--model", "m.bpca", "--save", "n.bpca", "-o", "c.csv", rc=1)
    assert "--save writes the model of a new fit" in said


@pytest.mark.parametrize("verb", ["denoise", "impute"])
def test_verbs_that_fit_save_their_model(verb, folder):
    output(verb, "x.csv", "-o", "out.csv", "--save", "m.bpca")
    assert bayespca.load("m.bpca").n_components_ == 2


def test_clusters_of_saved_mixtures(folder):
    rng = np.random.default_rng(0)
    X = table() + 30 * (np.arange(80) % 2)[:, None]
    bayespca.PCAMixture(2, random_state=0).fit(X).save("p.bpca")
    X.iloc[:, ::-1].to_csv("w.csv", index=False)
    output("transform", "p.bpca", "w.csv", "-o", "s.csv")
    found = pd.read_csv("s.csv")
    assert set(found["cluster"]) == {1.0, 2.0}
    assert found["cluster"].nunique() == found["cluster"][:2].nunique() == 2
    assert list(found.columns[:3]) == ["cluster", "cluster 1 probability", "cluster 2 probability"]
    B = pd.DataFrame((rng.random((80, 6)) < 0.5).astype(float), columns=NAMES)
    bayespca.BernoulliMixture(2, random_state=0).fit(B).save("b.bpca")
    B.iloc[0, 0] = np.nan
    B.to_csv("b.csv", index=False)
    output("impute", "b.csv", "--model", "b.bpca", "-o", "f.csv")
    assert 0 < pd.read_csv("f.csv")["gene 0"][0] < 1
    said = run("denoise", "b.csv", "--model", "b.bpca", "-o", "g.csv", rc=1)
    assert "bayespca denoise cannot use: use bayespca transform or impute instead" in said
    assert "has no such spread" in run(
        *("impute", "b.csv", "--model", "b.bpca", "-o", "f.csv", "--std"), rc=1
    )


def test_info_says_which_verbs_use_a_model(folder):
    output("fit", "x.csv", "--model", "m.bpca")
    assert json.loads(output("info", "m.bpca", "--json"))["used_by"] == [
        *("transform", "denoise", "impute", "check")
    ]
    shown = " ".join(output("info", "m.bpca").split())
    assert "used by bayespca transform, bayespca denoise, bayespca impute, bayespca check" in shown


@pytest.mark.parametrize("options", [[], ["--clusters", "2"], ["--binary", "--binarize", "0"]])
def test_info_ends_with_what_is_named(options, folder):
    output("fit", "x.csv", "--model", "m.bpca", *options)
    *_, last = output("info", "m.bpca").strip().splitlines()
    assert last.split()[0] in ("engine", "used")


def test_a_saved_model_of_ratings_predicts(folder):
    lines = [f"{u},{i},{(u * i) % 5 + 1}" for u in range(12) for i in range(12) if (u + i) % 3]
    (folder / "r.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    (folder / "p.csv").write_text("user,item\n0,0\n3,3\n")
    first = output("ratings", "r.csv", "--save", "r.bpca", "--predict", "p.csv")
    assert output("ratings", "r.bpca", "--predict", "p.csv") == first
    found = json.loads(output("info", "r.bpca", "--json"))
    assert (found["used_by"], found["n_items"]) == (["predict", "recommend", "ratings"], 12)
    assert "give --predict, --recommend or --report" in run("ratings", "r.bpca", rc=1)


def test_a_saved_model_of_tensors(folder):
    rng = np.random.default_rng(0)
    T = np.einsum("i,j,k->ijk", *rng.normal(size=(3, 12))) + 0.01 * rng.normal(size=(12, 12, 12))
    bayespca.BayesianTucker().fit(T).save("t.bpca")
    T[0, 1, 2] = np.nan
    np.save("t.npy", T)
    assert output("transform", "t.bpca", "t.npy").startswith("component 1\n")
    output("denoise", "t.npy", "--model", "t.bpca", "-o", "c.npy")
    output("impute", "t.npy", "--model", "t.bpca", "-o", "f.npy", "--std")
    filled, std = np.load("f.npy"), np.load("f-std.npy")
    assert filled[0, 1, 2] == pytest.approx(np.load("c.npy")[0, 1, 2], rel=1e-9)
    np.testing.assert_array_equal(filled[1:], T[1:])
    assert np.count_nonzero(std) == 1
    assert "holds an array of shape (12, 12, 12)" in run("rank", "t.npy", rc=1)

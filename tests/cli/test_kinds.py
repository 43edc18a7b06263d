"""`bayespca fit` on tensors, clusters, curves, and zeros and ones: the installed command."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pandas as pd
import pytest

import bayespca
from bayespca.datasets import low_rank

from .installed import COMMAND, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(*arguments):
    """The object that --json prints; lines of progress go to standard error."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments), "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def tensor():
    rng = np.random.default_rng(0)
    return np.einsum("i,j,k->ijk", *rng.normal(size=(3, 9))) + 0.01 * rng.normal(size=(9, 9, 9))


def write_two_groups():
    X = low_rank(80, 5, 2, random_state=0).X
    table = pd.DataFrame(np.vstack([X, X + 40]), columns=list("abcde"))
    table.insert(0, "sample", [f"s{i}" for i in range(160)])
    table.to_csv("x.csv", index=False)


def write_bits():
    rng = np.random.default_rng(0)
    chance = np.where(np.arange(120)[:, None] % 2, 0.9, 0.1)
    cells = (rng.random((120, 8)) < chance).astype(int)
    pd.DataFrame(cells, columns=[f"item {j}" for j in range(8)]).to_csv("b.csv", index=False)


OUTPUTS = ("--model", "m.bpca", "--report", "r.html", "--scores", "s.csv")


@pytest.mark.parametrize("name", ["t.npy", "t.npz"])
def test_tensors(name, folder):
    if name == "t.npy":
        np.save(name, tensor())
    else:
        np.savez(name, T=tensor(), other=np.arange(3))
    found = json.loads(run("fit", name, "--json", *OUTPUTS))
    assert (found["class"], found["ranks"], found["shape"]) == (
        *("BayesianTucker", [1, 1, 1]),
        [9, 9, 9],
    )
    assert found["noise_variance"] == pytest.approx(1e-4, rel=0.2)
    assert set(found["written"]) == {"model", "report", "scores"}
    assert bayespca.load("m.bpca").ranks_ == (1, 1, 1)
    assert "A core of 1 × 1 × 1 makes up this tensor." in (folder / "r.html").read_text("utf-8")
    assert len(pd.read_csv("s.csv")) == 9


def test_tensors_for_people(folder):
    np.save("t.npy", tensor())
    assert "A core of 1 × 1 × 1 makes up this tensor." in run("fit", "t.npy")
    said = run("fit", "t.npy", "--scale", rc=1)
    assert "--scale does not apply to a tensor: leave it out." in said
    assert "--clusters does not apply" in run("fit", "t.npy", "--clusters", "2", rc=1)
    assert "options on how to read a table" in run("fit", "t.npy", "--transpose", rc=1)


@pytest.mark.parametrize("clusters", ["2", "auto"])
def test_clusters(clusters, folder):
    write_two_groups()
    found = json.loads(run("fit", "x.csv", "--clusters", clusters, "--json", *OUTPUTS))
    assert (found["n_clusters"], found["class"]) == (2, "PCAMixture")
    assert found["id_column"] == "sample"
    assert pd.read_csv("s.csv")["cluster"].nunique() == 2
    assert bayespca.load("m.bpca").feature_names_in_.tolist() == list("abcde")
    assert "fall into two clusters" in (folder / "r.html").read_text("utf-8")
    assert run("transform", "x.csv", "--model", "m.bpca").startswith("sample,cluster,cluster 1")


def test_clusters_for_people(folder):
    write_two_groups()
    said = run("fit", "x.csv", "--clusters", "2")
    assert "These rows fall into two clusters, as requested." in said
    assert "--center does not apply to clusters" in run(
        *("fit", "x.csv", "--clusters", "2", "--no-center"), rc=1
    )
    assert "number of at least 1, or" in run("fit", "x.csv", "--clusters", "0", rc=2)


def write_curve(holes=False):
    rng = np.random.default_rng(0)
    t = np.linspace(0, 3, 60)
    X = np.stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)], axis=1)
    X += 0.05 * rng.normal(size=X.shape)
    table = pd.DataFrame(X, columns=list("abcd"))
    if holes:
        table = table.mask(rng.random(X.shape) < 0.1)
    table.insert(0, "sample", [f"s{i}" for i in range(60)])
    table.to_csv("c.csv", index=False)


def test_curves(folder):
    write_curve(holes=True)
    found = parsed("fit", "c.csv", "--curves", "--n-components", "2", *OUTPUTS)
    assert (found["class"], found["rank"]) == ("GPLVM", 1)
    assert found["nonlinear_evidence"] > 0
    assert len(found["relevance"]) == 1
    assert set(found["written"]) == {"model", "report", "scores"}
    model = bayespca.load("m.bpca")
    assert model.feature_names_in_.tolist() == list("abcd")
    scores = pd.read_csv("s.csv")
    assert list(scores.columns) == ["sample", "component 1", "component 1 std"]
    np.testing.assert_allclose(scores["component 1"], model.embedding_[:, 0])
    assert "one curved dimension" in (folder / "r.html").read_text("utf-8")
    assert run("transform", "c.csv", "--model", "m.bpca").startswith("sample,component 1")
    run("impute", "c.csv", "--model", "m.bpca", "-o", "full.csv", "--std")
    assert not pd.read_csv("full.csv").isna().any().any()
    holes = pd.read_csv("c.csv")[list("abcd")].isna()
    spread = pd.read_csv(next(folder.glob("full*std*.csv")))[list("abcd")]
    assert ((spread > 0) == holes).all().all()
    beside = ("impute", "c.csv", "--model", "m.bpca", "-o", "f.csv", "--draws", "2")
    assert "--draws needs a model of fit" in run(*beside, rc=1)
    run("denoise", "c.csv", "--model", "m.bpca", "-o", "clean.csv")
    assert not pd.read_csv("clean.csv").isna().any().any()


def test_curves_for_people(folder):
    write_curve()
    said = run("fit", "c.csv", "--curves", "--n-components", "1")
    assert "These data lie along one curved dimension." in said
    assert "nats more, than a linear PCA" in said
    assert "dimension 1 relevance" in said
    assert "--scale does not apply to curves" in run("fit", "c.csv", "--curves", "--scale", rc=1)
    assert "are different models" in run("fit", "c.csv", "--curves", "--binary", rc=1)
    said = run("fit", "c.csv", "--curves", "--noise", "both", rc=1)
    assert "noise must be one of 'isotropic', 'per-feature'" in said
    np.save("t.npy", tensor())
    assert "to which --curves does not apply" in run("fit", "t.npy", "--curves", rc=1)


def test_zeros_and_ones(folder):
    write_bits()
    found = json.loads(run("fit", "b.csv", "--binary", "--json", *OUTPUTS))
    assert (found["class"], found["rank"]) == ("BinaryPCA", 1)
    assert "zeros and ones" in (folder / "r.html").read_text("utf-8")
    assert list(pd.read_csv("s.csv").columns) == ["component 1", "component 1 std"]
    kinds = json.loads(run("fit", "b.csv", "--binary", "--clusters", "auto", "--json"))
    assert (kinds["class"], kinds["n_clusters"]) == ("BernoulliMixture", 2)


def test_zeros_and_ones_are_recognised(folder):
    write_bits()
    assert "All values are 0 or 1" in (said := run("fit", "b.csv"))
    assert "--binary fits BinaryPCA" in said
    assert any("--binary" in note for note in json.loads(run("fit", "b.csv", "--json"))["notes"])
    write_two_groups()
    assert "--binary" not in run("fit", "x.csv")
    said = run("fit", "x.csv", "--binary", rc=1)
    assert "column 'a'" in said
    assert "--binarize" in said
    above = json.loads(run("fit", "x.csv", "--binary", "--binarize", "20", "--json"))
    assert above["ones"] > 0
    assert "--binarize needs --binary" in run("fit", "x.csv", "--binarize", "20", rc=1)

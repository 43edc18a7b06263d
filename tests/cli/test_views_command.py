"""`bayespca views`: several files of the same samples."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayespca.cli.app import app
from views import mixed
from views.simulated import rows_of, simulated

runner = CliRunner()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, tables, _ = simulated(0)
    for name, X in zip(("genes", "proteins", "clinic"), tables, strict=True):
        frame = pd.DataFrame(X, columns=[f"{name[0]}{j}" for j in range(X.shape[1])])
        frame.insert(0, "sample", [f"s{i}" for i in range(len(X))])
        frame.sample(frac=1.0, random_state=len(name)).to_csv(f"{name}.csv", index=False)
    return tmp_path


def run(*arguments):
    return runner.invoke(app, ["views", *arguments])


FILES = ("genes.csv", "proteins.csv", "clinic.csv", "--id", "sample")


def test_factors_and_files(files):
    found = run(*FILES, "--scores", "s.csv", "--loadings", "l.csv", "--report", "r.html")
    assert found.exit_code == 0, found.output
    assert "Six factors drive these three tables." in found.output
    scores, loadings = pd.read_csv("s.csv"), pd.read_csv("l.csv")
    assert list(scores.columns[:3]) == ["sample", "component 1", "component 1 std"]
    assert set(scores["sample"]) == {f"s{i}" for i in range(100)}
    assert list(loadings["feature"][:2]) == ["genes: g0", "genes: g1"]
    assert "Which factor is in which table" in (files / "r.html").read_text(encoding="utf-8")


def test_json_has_the_pattern(files):
    found = json.loads(run(*FILES, "--json").stdout)
    assert (found["class"], found["rank"]) == ("MultiViewPCA", 6)
    assert found["views"] == ["genes", "proteins", "clinic"]
    assert rows_of(found["active"]) == rows_of(simulated(0)[2])


def test_a_saved_model_is_applied_to_some_of_the_tables(files):
    assert run(*FILES, "--save", "m.bpca", "--scores", "all.csv").exit_code == 0
    found = run("genes.csv", "--id", "sample", "--model", "m.bpca", "--scores", "some.csv")
    assert found.exit_code == 0, found.output
    some, whole = (pd.read_csv(name).set_index("sample") for name in ("some.csv", "all.csv"))
    shared = next(name for name in some if some[name].std() > 0.1 and "std" not in name)
    assert np.corrcoef(some[shared], whole.loc[some.index, shared])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("genes.csv", "genes.csv"), "two files are called 'genes'"),
        (("genes.csv", "--scores", "genes.csv"), "over the file that FILES names"),
        (("genes.csv", "--model", "m.bpca"), "give --scores or --report"),
        (("absent.csv",), "absent.csv"),
    ],
)
def test_sentences(files, arguments, sentence):
    found = run(*arguments)
    assert found.exit_code != 0
    assert sentence in found.output.replace("\n", " ")


# --- tables with likelihoods ---------------------------------------------------------------------


@pytest.fixture
def mixed_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = mixed.simulated(0)
    ids, a, rng = [f"s{i}" for i in range(200)], truth.scores, np.random.default_rng(0)
    genes, mutations, _ = (pd.DataFrame(table) for table in truth.tables)
    for name, frame in (("genes", genes), ("mutations", mutations.astype(int))):
        frame.columns = [f"{name[0]}{j}" for j in range(frame.shape[1])]
        frame.insert(0, "sample", ids)
        frame.to_csv(f"{name}.csv", index=False)
    clinic = pd.DataFrame({"sample": ids, "sex": np.where(a[:, 0] > 0, "f", "m")})
    clinic["visits"] = rng.poisson(np.exp(0.6 * a[:, 0] + 1))
    clinic["stage"] = np.digitize(a[:, 1], [-1, 0, 1]) + 1
    clinic["town"] = rng.choice(["A", "B", "C"], 200)
    clinic["remark"] = [f"a remark on {i}" for i in range(200)]
    clinic.loc[3, "sex"] = ""
    clinic.iloc[20:].to_csv("clinic.csv", index=False)
    return tmp_path


MIXED = ("genes.csv", "mutations.csv", "clinic.csv", "--id", "sample")
KINDS = ("--likelihood", "mutations=bernoulli", "--likelihood", "clinic:stage=ordinal")


def test_tables_with_likelihoods(mixed_files):
    outputs = ("--scores", "s.csv", "--loadings", "l.csv", "--report", "r.html", "--save", "m.bpca")
    found = run(*MIXED, *KINDS, *outputs)
    assert found.exit_code == 0, found.output
    assert "factors drive these three tables." in found.output
    assert "Skipped in clinic: 'remark' (180 different texts)." in found.output
    loadings = pd.read_csv("l.csv")["feature"].tolist()
    assert "clinic: sex" in loadings
    assert len([name for name in loadings if name.startswith("clinic: town=")]) == 2
    page = (mixed_files / "r.html").read_text(encoding="utf-8")
    assert "clinic: stage" in page
    again = run(*MIXED, "--model", "m.bpca", "--scores", "again.csv")
    assert again.exit_code == 0, again.output
    pd.testing.assert_frame_equal(pd.read_csv("s.csv"), pd.read_csv("again.csv"))
    some = run("clinic.csv", "--id", "sample", "--model", "m.bpca", "--scores", "some.csv")
    assert some.exit_code == 0, some.output
    assert len(pd.read_csv("some.csv")) == 180


def test_json_has_likelihoods(mixed_files):
    found = json.loads(run(*MIXED, *KINDS, "--json").stdout)
    assert found["likelihoods"]["mutations"] == "bernoulli"
    assert found["likelihoods"]["clinic"]["sex"] == "bernoulli"
    assert found["likelihoods"]["clinic"]["stage"] == "ordinal"
    assert found["noise_variance"][1] is None


def test_a_kind_for_all_tables(mixed_files):
    found = json.loads(run(*MIXED[:2], "--id", "sample", "--likelihood", "auto", "--json").stdout)
    assert found["likelihoods"] == {"genes": "normal", "mutations": "bernoulli"}


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["mutations"], "must be auto or one of"),
        (["auto", "genes=normal"], "must be auto or one of"),
        (["proteins=auto"], "names the table 'proteins', but the tables are 'genes', 'mutations'"),
        (["genes=auto", "genes:g0=normal"], "says more than one thing about 'genes'"),
        (["mutations:m77=poisson"], "names the column 'm77', which view 'mutations' does not have"),
    ],
)
def test_likelihoods_that_cannot_be(mixed_files, kinds, message):
    found = run(*MIXED, *(part for kind in kinds for part in ("--likelihood", kind)))
    assert found.exit_code != 0
    assert message in " ".join(found.output.replace("│", " ").split())

"""`bayespca views`: several files of the same samples."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayespca.cli.app import app
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
        (("genes.csv", "genes.csv"), "two of the files are called 'genes'"),
        (("genes.csv", "--scores", "genes.csv"), "over the file that FILES names"),
        (("genes.csv", "--model", "m.bpca"), "give --scores or --report"),
        (("absent.csv",), "absent.csv"),
    ],
)
def test_sentences(files, arguments, sentence):
    found = run(*arguments)
    assert found.exit_code != 0
    assert sentence in found.output.replace("\n", " ")

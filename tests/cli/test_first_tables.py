"""Office tables: Excel files and repeated column names; also shell completion."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

from bayespca.datasets import low_rank

from .installed import output

TWICE = "a,b,b\n" + "".join(f"{i},{i * i % 7},{i % 3}\n" for i in range(20))


def test_excel(tmp_path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    frame = pd.DataFrame(low_rank(40, 4, 2, random_state=0).X, columns=list("abcd"))
    frame.insert(0, "name", [f"s{i}" for i in range(40)])
    holed = frame.copy()
    holed.loc[3, "b"] = np.nan
    with pd.ExcelWriter(tmp_path / "x.xlsx") as book:
        frame.to_excel(book, sheet_name="first", index=False)
        holed.to_excel(book, sheet_name="second", index=False)
    frame.to_csv(tmp_path / "x.csv", index=False)
    found, same = (
        json.loads(output("fit", f, "--json", cwd=tmp_path)) for f in ("x.xlsx", "x.csv")
    )
    assert found["free_energy"] == pytest.approx(same["free_energy"], rel=1e-9)
    assert found["id_column"] == "name"
    output("impute", "x.xlsx", "--array", "second", "-o", "full.csv", cwd=tmp_path)
    full = pd.read_csv(tmp_path / "full.csv")
    assert list(full) == list(frame)
    assert np.isfinite(full.loc[3, "b"])
    said = output("fit", "x.xlsx", "--array", "third", cwd=tmp_path, rc=1)
    assert "x.xlsx has no sheet 'third'; it has 'first', 'second'." in said


def test_excel_without_openpyxl(tmp_path):
    (tmp_path / "openpyxl.py").write_text("raise ImportError")
    (tmp_path / "x.xlsx").write_bytes(b"PK\x03\x04")
    said = output("fit", "x.xlsx", cwd=tmp_path, rc=1, env=os.environ)
    assert 'reading x.xlsx needs openpyxl: install it with pip install "bayespca[excel]".' in said


def test_a_name_that_occurs_twice(tmp_path):
    (tmp_path / "x.csv").write_text(TWICE)
    said = output("fit", "x.csv", cwd=tmp_path, rc=1)
    assert "two columns called 'b' (columns 2 and 3)" in said
    assert "leave it out with --drop '#3'" in said
    found = json.loads(output("fit", "x.csv", "--drop", "#3", "--json", cwd=tmp_path))
    assert found["n_features"] == 2
    output("denoise", "x.csv", "--drop", "#2", "-o", "y.csv", cwd=tmp_path)
    assert list(pd.read_csv(tmp_path / "y.csv")) == ["a", "b #2", "b"]


BEGINNINGS = {
    "bash": "_bayespca_completion() {",
    "zsh": "#compdef bayespca",
    "fish": "complete --command bayespca",
}


@pytest.mark.parametrize("shell", BEGINNINGS)
def test_the_completion_of_any_shell_can_be_shown(shell, tmp_path):
    """The shell need not be the one that the command runs in."""
    said = output("--show-completion", shell, cwd=tmp_path, env=os.environ)
    assert said.strip().startswith(BEGINNINGS[shell])
    assert f"_BAYESPCA_COMPLETE=complete_{shell}" in said


def test_several_files_get_a_hint(tmp_path):
    said = " ".join(output("fit", "a.csv", "b.csv", cwd=tmp_path, rc=2).replace("│", " ").split())
    assert "(b.csv). One file is read: quote a pattern" in said


def test_options_that_read_a_file_are_named(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.eye(3), b=np.eye(4))
    said = output("fit", "x.npz", cwd=tmp_path, rc=1)
    assert "name the array to read (--array), one of a (3, 3), b (4, 4)" in said
    (tmp_path / "x.csv").write_text("a|b\nu|v\nw|x\n")
    assert "name the delimiter (--delimiter)" in output("fit", "x.csv", cwd=tmp_path, rc=1)
    np.save(tmp_path / "t.npy", np.ones((2, 3, 4)))
    said = output("impute", "t.npy", "-o", "u.npy", cwd=tmp_path, rc=1)
    assert "take them with the model that fit saves (--model)" in said


def test_the_shell_completes_verbs_and_options(tmp_path):
    asked = {"_BAYESPCA_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "bayespca im"}
    assert output(cwd=tmp_path, env=os.environ | asked).split() == ["impute"]
    asked |= {"COMP_CWORD": "3", "COMP_WORDS": "bayespca fit - --tr"}
    assert output(cwd=tmp_path, env=os.environ | asked).split() == ["--transpose"]


# --- labels and ids ----------------------------------------------------------------------------


def with_labels(folder):
    """Four columns of numbers, a class that is a number, one that is a text, and ids."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(60, 4))
    table = pd.DataFrame(X, columns=list("abcd"))
    table["class"], table["kind"] = np.arange(60) % 3, np.where(np.arange(60) % 2, "x", "y")
    table["component 1"] = [f"s{i}" for i in range(60)]
    table.to_csv(folder / "x.csv", index=False)


def test_labels_are_no_features_whatever_they_are(tmp_path):
    with_labels(tmp_path)
    labels = ("--label", "class", "--label", "kind")
    options = ("--id", "component 1", "--json", "--report", "r.html")
    said = json.loads(output("fit", "x.csv", *labels, *options, cwd=tmp_path))
    assert said["n_features"] == 4
    assert said["columns_set_aside"] == {"class": "label", "kind": "label"}
    assert '"labelsName":"class"' in (tmp_path / "r.html").read_text()


def test_ids_that_are_called_like_a_component_stay(tmp_path):
    with_labels(tmp_path)
    output(
        "fit", "x.csv", "--id", "component 1", "--numbers-only", "--scores", "s.csv", cwd=tmp_path
    )
    scores = pd.read_csv(tmp_path / "s.csv")
    assert scores["component 1 (id)"].tolist() == [f"s{i}" for i in range(60)]
    assert scores["component 1"].std() > 0

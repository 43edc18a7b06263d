"""Files that new users brought, and the answers the installed command gives them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from .installed import run

CLAIM = b"%%MatrixMarket matrix array real general\n100000000 1000\n1.0\n"
NEGATIVE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 4), }"
NUMPY = b"\x93NUMPY\x01\x00v\x00" + NEGATIVE.ljust(117) + b"\n" + bytes(96)
HEADER = ",0,1,2\n" + "".join(f"{i},{i % 3},{i % 5},{(i * i) % 7}\n" for i in range(20))
FILES = {
    "a.mtx": (CLAIM, 1, ["a.mtx", "claims to hold 100,000,000,000 numbers, and has 60 bytes"]),
    "a.npy": (NUMPY, 1, ["a.npy is damaged: it claims to hold an array of shape (-3, 4)"]),
    "one.csv": (b"a,b\n1,2\n", 0, ["There is a single sample", "transpose the table"]),
    "pandas.csv": (
        HEADER.encode(),
        0,
        ["20 samples × 3 features", "The first line (0, 1, 2) was read as"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gets_a_sentence(tmp_path, name):
    contents, expected, sentences = FILES[name]
    (tmp_path / name).write_bytes(contents)
    said = run("fit", name, cwd=tmp_path, rc=expected)
    for sentence in sentences:
        assert sentence in said
    for nonsense in ("inf nats", "Traceback", "terminate called", "probability over"):
        assert name == "pandas.csv" or nonsense not in said


def test_names_do_not_control_the_terminal(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) + 0.1 * rng.normal(size=(60, 3))
    names = ["\x1b[31mred", "[bold]", "\x9b2J"]
    pd.DataFrame(X, columns=names).to_parquet(tmp_path / "[red]x.parquet")
    said = run("fit", "[red]x.parquet", "--noise", "isotropic", cwd=tmp_path)
    assert not {"\x1b", "\x9b"} & set(said)
    assert all(name in said for name in ("\\x1b[31mred", "[bold]", "\\x9b2J"))
    assert said.startswith("[red]x.parquet 60 samples")
    said = run("fit", "\x1b[31mred.csv", cwd=tmp_path, rc=1)
    assert said == "bayespca: \\x1b[31mred.csv: there is no such file."


def test_folders_stay_as_they_were(tmp_path):
    Path(tmp_path / "one.csv").write_text("a,b\n1,2\n")
    run("fit", "one.csv", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]


def test_one_row_has_no_probable_number(tmp_path):
    (tmp_path / "one.csv").write_text("a,b,c\n1,2,3\n")
    said = run("fit", "one.csv", cwd=tmp_path)
    assert said.startswith("one.csv 1 sample × 3 features")
    said = run("rank", "one.csv", cwd=tmp_path)
    assert "components 0, nothing varies" in said
    assert "There is a single sample" in said
    assert "transpose the table (--transpose)" in said
    found = json.loads(run("rank", "one.csv", "--json", cwd=tmp_path))
    assert (found["rank_probabilities"], "--transpose" in found["why"]) == ({}, True)


def test_one_of_a_kind_is_singular(tmp_path):
    rows = [f"{i},{i * i % 7},{i % 5}" for i in range(30)]
    (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join([*rows, "3,,1"]) + "\n")
    assert "1 hole (1 % of the cells) was filled" in run(
        "impute", "x.csv", "-o", "y.csv", cwd=tmp_path
    )
    (tmp_path / "r.csv").write_text("user,item,rating\n1,2,3\n")
    assert "1 rating of 1 item by 1 user," in run("ratings", "r.csv", cwd=tmp_path)


def test_rank_with_holes_says_which_rules_are_left_out(tmp_path):
    rows = [f"{i},{i * i % 7},{i % 5}" for i in range(30)]
    (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join([*rows, "3,,1"]) + "\n")
    said = run("rank", "x.csv", cwd=tmp_path)
    assert "Because of the holes, these were not tried: Minka" in " ".join(said.split())
    found = json.loads(run("rank", "x.csv", "--json", cwd=tmp_path))
    assert found["not_asked"].startswith("Because of the holes")

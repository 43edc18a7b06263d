"""Tables that come through pipes: the installed command with `-` for a file."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import chdir

import numpy as np
import pandas as pd
import pytest

from bayespca.datasets import low_rank
from cli import installed

COMMAND = [sys.executable, "-m", "bayespca"]
RATINGS = "user,item,rating\n" + "".join(
    f"u{i},i{j},{1 + (i * j) % 5}\n" for i in range(12) for j in range(8) if (i + j) % 3
)


def piped(given, *arguments, cwd, rc=0):
    """Standard output, as bytes, and standard error of the command with `given` as its input."""
    done = subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, check=False, cwd=cwd
    )
    said = done.stderr.decode()
    assert done.returncode == rc, said
    assert "Traceback" not in said
    return done.stdout, " ".join(said.split())


def piped_inside(given, *arguments, cwd, rc=0):
    """The same in this process, which is seconds faster."""
    with chdir(cwd):
        out, said = installed.piped_inside(given, *arguments, rc=rc)
    return out, " ".join(said.split())


def table(holes=False):
    X = low_rank(60, 5, 2, random_state=0).X
    if holes:
        X[::7, 1] = np.nan
    return pd.DataFrame(X, columns=list("abcde"))


def as_csv(frame, **options):
    return frame.to_csv(index=False, **options).encode()


def as_bytes(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


PIPED = {
    "tsv": lambda: as_csv(table(), sep="\t"),
    "gzip": lambda: as_bytes(lambda s: table().to_csv(s, index=False, compression="gzip")),
    "parquet": lambda: as_bytes(table().to_parquet),
    "npz": lambda: as_bytes(lambda s: np.savez(s, X=table().to_numpy())),
}


@pytest.mark.parametrize("name", PIPED)
def test_what_is_piped_is_recognised_by_its_content(name, tmp_path):
    out, said = piped(PIPED[name](), "fit", "-", "--json", cwd=tmp_path)
    assert said == ""
    found = json.loads(out)
    assert (found["file"], found["n_samples"], found["rank"]) == ("standard input", 60, 2)
    assert not list(tmp_path.iterdir())


def test_every_verb_reads_standard_input(tmp_path):
    given = as_csv(table())
    out, _ = piped_inside(given, "fit", "-", "--model", "m.bpca", cwd=tmp_path)
    assert out.startswith(b"standard input  60 samples")
    assert b"EVB" in piped_inside(given, "rank", "-", "--no-stability", cwd=tmp_path)[0]
    scores, _ = piped_inside(given, "transform", "m.bpca", "-", cwd=tmp_path)
    assert pd.read_csv(io.BytesIO(scores)).shape == (60, 4)
    model = (tmp_path / "m.bpca").read_bytes()
    assert b"standard input" in piped_inside(model, "info", "-", cwd=tmp_path)[0]
    out, _ = piped_inside(RATINGS.encode(), "ratings", "-", "--json", cwd=tmp_path)
    assert json.loads(out)["n_users"] == 12
    (tmp_path / "other.csv").write_bytes(as_csv(table().add_prefix("other ")))
    out, _ = piped_inside(given, "views", "other.csv", "-", "--json", cwd=tmp_path)
    assert json.loads(out)["files"] == ["other.csv", "standard input"]


@pytest.mark.parametrize("verb", ["denoise", "impute"])
def test_a_table_goes_through(verb, tmp_path):
    given = table(holes=True)
    out, said = piped(as_csv(given), verb, "-", "-o", "-", cwd=tmp_path)
    found = pd.read_csv(io.BytesIO(out), dtype=str, na_filter=False).map(float)
    assert list(found) == list("abcde")
    assert found.shape == (60, 5)
    assert not found.isna().any().any()
    assert said.startswith("standard input 60 samples × 5 features")
    assert "standard output" in said
    if verb == "impute":
        known = given.notna()
        assert found[known].equals(given[known])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--scores", "--loadings"])
def test_nothing_but_the_table_is_on_standard_output(option, tmp_path):
    out, said = piped_inside(as_csv(table()), "fit", "-", option, "-", cwd=tmp_path)
    assert pd.read_csv(io.BytesIO(out)).shape[0] == (60 if option == "--scores" else 5)
    assert "60 samples × 5 features" in said
    _, said = piped_inside(as_csv(table()), "fit", "-", option, "-", "--json", cwd=tmp_path)
    assert json.loads(said)["rank"] == 2


def test_predictions_go_to_standard_output(tmp_path):
    (tmp_path / "r.csv").write_text(RATINGS)
    pairs = b"user,item\nu1,i2\nu2,i1\n"
    out, said = piped(pairs, "ratings", "r.csv", "--predict", "-", "-o", "-", cwd=tmp_path)
    assert pd.read_csv(io.BytesIO(out))["user"].tolist() == ["u1", "u2"]
    assert "12 users" in said


def test_what_is_wrong_is_said_of_standard_input(tmp_path):
    bad = b"a,b\n1,2\n3,x\n4,5\n6,7\n"
    out, said = piped_inside(bad, "fit", "-", cwd=tmp_path, rc=1)
    assert said.startswith("bayespca: standard input, line 3, column 'b': 'x' is not a number.")
    out, said = piped_inside(bad, "impute", "-", "-o", "-", "--json", cwd=tmp_path, rc=1)
    assert out == b""
    assert "standard input, line 3" in json.loads(said)["error"]
    _, said = piped_inside(b"", "fit", "-", cwd=tmp_path, rc=1)
    assert "standard input is empty" in said


def test_one_file_each_way(tmp_path):
    given = as_csv(table())
    _, said = piped_inside(
        given, "fit", "-", "--scores", "-", "--loadings", "-", cwd=tmp_path, rc=2
    )
    assert "standard output can take one file only" in said
    _, said = piped_inside(given, "transform", "-", "-", cwd=tmp_path, rc=2)
    assert "standard input can be read for one file only" in said
    _, said = piped_inside(given, "impute", "-", "-o", "-", "--draws", "2", cwd=tmp_path, rc=1)
    assert "give --out the name of a file" in said


def test_other_texts_for_missing_values_add_to_the_usual(tmp_path):
    given = b"a,b,c\n" + b"".join(b"%d,%d,%d\n" % (i, i * i % 7, i % 3) for i in range(20))
    given += b"-999,NA,1\n?,4,-999\n"
    out, _ = piped_inside(
        given, "impute", "-", "-o", "f.csv", "--na", "-999", "--json", cwd=tmp_path
    )
    assert json.loads(out)["holes"] == 4

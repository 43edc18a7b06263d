"""No output takes the place of an input or of another output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayespca.cli.app import app

CLASHES = [
    ("fit a.csv --model a.csv", "--model would write a.csv over the file that DATA names"),
    ("fit a.csv --report ./a.csv", "--report would write a.csv over the file that DATA"),
    ("fit link.csv --scores a.csv", "--scores would write a.csv over the file that DATA"),
    ("fit a.csv --loadings hard.csv", "--loadings would write hard.csv over the file that DATA"),
    ("fit *.csv --scores b.csv", "--scores would write b.csv over the file that DATA names"),
    (
        "fit a.csv --scores x.csv --loadings x.csv",
        "--scores and --loadings would both write x.csv: choose another name for one.",
    ),
    ("fit a.csv --report x --model ../here/x", "--report and --model would both write x"),
    ("denoise a.csv --out a.csv", "--out would write a.csv over the file that DATA names"),
    ("impute a.csv --out a.csv", "--out would write a.csv over the file that DATA names"),
    ("impute a-std.csv --out a.csv --std", "--std would write a-std.csv over the file that DATA"),
    ("impute a-draw-2.csv --out a.csv --draws 3", "--draws would write a-draw-2.csv over"),
    ("transform m.csv a.csv --out m.csv", "--out would write m.csv over the file that MODEL"),
    ("transform m.csv a.csv --out a.csv", "--out would write a.csv over the file that DATA"),
    ("ratings a.csv --save a.csv", "--save would write a.csv over the file that FILE names"),
    ("ratings a.csv --predict b.csv --out b.csv", "over the file that --predict names"),
    ("ratings a.csv --recommend 1 --users b.csv --out b.csv", "the file that --users names"),
    ("ratings a.csv --recommend 1 --save x.csv --out x.csv", "--out and --save would both"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Unreadable files: a complaint about names must come from a check before any reading."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("a.csv", "b.csv", "m.csv", "a-std.csv", "a-draw-2.csv"):
        Path(name).write_bytes(b"\x00")
    Path("link.csv").symlink_to("a.csv")
    Path("hard.csv").hardlink_to("a.csv")
    return folder


@pytest.mark.parametrize(("command", "said"), CLASHES, ids=[command for command, _ in CLASHES])
def test_an_output_that_would_replace_a_file_of_the_same_command(here, capsys, command, said):
    with pytest.raises(SystemExit) as stopped:
        app(command.split(), prog_name="bayespca")
    assert stopped.value.code == 1
    assert said in capsys.readouterr().err
    assert Path("a.csv").read_bytes() == b"\x00"


def test_a_long_list_of_users_is_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = [(u, i) for u in range(100) for i in range(4)]
    Path("r.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{u % 5}\n" for u, i in cells))
    users = ",".join(str(user) for user in range(100))
    with pytest.raises(SystemExit) as stopped:
        app(["ratings", "r.csv", "--recommend", "1", "--users", users], prog_name="bayespca")
    assert stopped.value.code == 0, capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_a_command_that_is_told_to_end_removes_what_it_was_writing(tmp_path):
    code = (
        "import os, signal, sys\n"
        "import bayespca.io.tables as tables\n"
        "tables.WRITERS['.csv'] = lambda path, parts: os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.argv = ['bayespca', 'denoise', 'x.npy', '--out', 'a.csv']\n"
        "from bayespca.cli.app import run\n"
        "run()\n"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]

"""`--lookalikes` of `bayespca rank` and `bayespca fit`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayespca import rank_report
from bayespca.datasets import low_rank
from report.reading import Reader

from .installed import output, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", low_rank(80, 8, 2, random_state=0).X)
    return tmp_path


def test_rank_says_how_often_each_rule_is_right(folder):
    expected = rank_report(np.load("x.npy"), n_halves=0, lookalikes=6).lookalikes
    found = json.loads(output("rank", "x.npy", "--lookalikes", "6", "--json"))["lookalikes"]
    assert found["right"] == pytest.approx(expected.right)
    assert found["n_tables"] == {str(k): count for k, count in expected.n_tables.items()}
    said = run("rank", "x.npy", "--lookalikes", "6", cwd=folder)
    assert expected.in_words in said
    assert "right in" in said
    assert json.loads(output("rank", "x.npy", "--json"))["lookalikes"] is None
    assert "right in" not in output("rank", "x.npy")


def test_fit_says_it_in_its_report(folder):
    asked = ("fit", "x.npy", "--lookalikes", "6")
    expected = rank_report(np.load("x.npy"), n_halves=0, lookalikes=6).lookalikes
    found = json.loads(output(*asked, "--report", "r.html", "--json"))["lookalikes"]
    assert found["right"] == pytest.approx(expected.right)
    html = Reader((folder / "r.html").read_text(encoding="utf-8")).words
    assert expected.in_words in html
    assert expected.in_words in run(*asked, cwd=folder)


def test_what_it_does_not_apply_to(folder):
    assert "--lookalikes needs the data in memory" in run(
        "fit", "x.npy", "--stream", "--lookalikes", "3", rc=1
    )
    assert "--lookalikes does not apply to clusters" in run(
        "fit", "x.npy", "--clusters", "2", "--lookalikes", "3", rc=1
    )

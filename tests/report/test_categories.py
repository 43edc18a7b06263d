"""Levels and numbers in the plane of two components."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import GeneralizedPCA, report
from bayespca.discrete.columns import TableColumn
from bayespca.report.columns import figure, placed


def scores(n=40, seed=0):
    return np.random.default_rng(seed).normal([3.0, -1.0], size=(n, 2))


def test_levels_lie_where_their_rows_do():
    T, codes = scores(), np.arange(40.0) % 3
    codes[[0, 5]] = np.nan
    found = placed(TableColumn("city", "categorical", ("a", "b", "c")), codes, T)
    for k in range(3):
        mean = T[codes == k].mean(axis=0) - T.mean(axis=0)
        assert found.points[k] == pytest.approx(mean, abs=1e-12)
    assert found.counts.tolist() == [(codes == k).sum() for k in range(3)]


def test_two_levels_lie_at_both_ends_of_an_arrow():
    T, codes = scores(), np.arange(40.0) % 2
    levels = placed(TableColumn("flag", "bernoulli", (0.0, 1.0)), codes, T)
    arrow = placed(TableColumn("number", "normal"), 7 + 3 * codes, T)
    assert arrow.points[0] == pytest.approx(levels.points[1], abs=1e-12)
    assert arrow.points[0] == pytest.approx(-levels.points[0], abs=1e-12)


def test_what_is_drawn():
    columns = [
        TableColumn("stage", "ordinal", ("low", "middle", "high")),
        TableColumn("smokes", "bernoulli", ("no", "yes")),
        TableColumn("age", "normal"),
        TableColumn("same", "normal"),
    ]
    T = scores()
    codes = np.column_stack([np.arange(40) % 3, np.arange(40) % 2, np.arange(40), np.ones(40)])
    drawn = figure(columns, codes * 1.0, T).data
    by_name = {each["name"]: each for each in drawn}
    assert set(by_name) == {"stage (ranks)", "smokes (yes/no)", "age"}
    assert by_name["stage (ranks)"]["text"] == ["low", "middle", "high"]
    assert "lines" in by_name["stage (ranks)"]["mode"]
    # Yes and no say nothing without the name of their column.
    assert by_name["smokes (yes/no)"]["text"] == ["smokes no", "smokes yes"]
    assert figure(columns, codes * 1.0, T[:, :1]) is None
    assert figure(columns[2:], codes[:, 2:] * 1.0, T) is None


def test_the_page_has_them(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(150, 2))
    table = pd.DataFrame({f"n{j}": a[:, j % 2] + 0.3 * rng.normal(size=150) for j in range(6)})
    table["city"] = np.where(a[:, 0] > 0.5, "Rome", np.where(a[:, 1] > 0, "<Oslo>", "Bern"))
    model = GeneralizedPCA().fit(table)
    report.write(tmp_path / "r.html", model, table)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Where the categories lie" in page
    assert "city (Bern, " in page or "city (Rome, " in page or "city (&lt;Oslo&gt;, " in page
    assert "n0 (number)" in page
    assert "<Oslo>" not in page

"""`bayespca check`: alarms, exit codes, and files."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import bayespca
from bayespca import monitoring

from .installed import output_inside, printed_inside


def written(path, X, names):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *X.tolist()])
    return path


@pytest.fixture
def files(tmp_path):
    """A model of a process, a file of rows near its mean, and those rows with a fault in row 2."""
    rng, names = np.random.default_rng(0), [f"sensor{j}" for j in range(8)]
    loadings = rng.normal(size=(2, 8))
    X = rng.normal(size=(120, 2)) @ loadings + 0.3 * rng.normal(size=(120, 8))
    model = tmp_path / "m.bpca"
    output_inside("fit", written(tmp_path / "good.csv", X, names), "--model", model)
    calm = 0.5 * X[:6]
    faulty = calm.copy()
    faulty[2, 5] += 6.0
    return (
        model,
        written(tmp_path / "calm.csv", calm, names),
        written(tmp_path / "faulty.csv", faulty, names),
    )


def test_no_alarm_ends_with_0(files):
    model, calm, _ = files
    assert "none of 6 rows has alarms" in output_inside("check", model, calm, rc=0)


def test_alarms_are_named_and_end_with_3(files):
    model, _, faulty = files
    shown = output_inside("check", model, faulty, "--alpha", "0.001", rc=3)
    line = next(line for line in shown.splitlines() if line.split()[:2] == ["2", "Q"])
    assert line.split()[4] == "sensor5,"


def test_json_and_table(files, tmp_path):
    model, _, faulty = files
    table = tmp_path / "table.csv"
    out, _ = printed_inside("check", model, faulty, "--json", "-o", table, rc=3)
    found = json.loads(out)
    assert {alarm["row"] for alarm in found["alarms"]} == {2}
    assert found["alarms"][-1]["columns"][0] == "sensor5"
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["alarm"]) for row in rows] == [0, 0, 1, 0, 0, 0]
    parts = [float(rows[2][f"Q of sensor{j}"]) for j in range(8)]
    assert sum(parts) == pytest.approx(float(rows[2]["Q"]))


def test_other_columns_and_other_models_are_one_sentence(files, tmp_path):
    model, _, _ = files
    other = written(tmp_path / "other.csv", np.ones((3, 2)), ["a", "b"])
    assert "fitted on other columns" in output_inside("check", model, other, rc=1)
    said = output_inside("check", model, tmp_path / "faulty.csv", "--alpha", "0", rc=1)
    assert "alpha" in said


def test_limits_from_clean_rows(files, tmp_path):
    model, _, faulty = files
    usual, moved = tmp_path / "usual.csv", tmp_path / "moved.csv"
    output_inside("check", model, faulty, "-o", usual, rc=3)
    good = tmp_path / "good.csv"
    output_inside("check", model, faulty, "--clean", good, "-o", moved, rc=3)
    tables = [csv.DictReader(path.read_text().splitlines()) for path in (usual, moved)]
    limits = [float(next(table)["Q limit"]) for table in tables]
    factor = monitoring.calibrate(bayespca.load(model), pd.read_csv(good)).q_factor(0.05)
    assert limits[1] == pytest.approx(limits[0] * factor)
    assert limits[1] != limits[0]
    failed = output_inside("check", model, faulty, "--clean", good, "--alpha", "0.001", rc=1)
    assert "need 999 clean rows or more, but there are 120" in failed


def test_workbooks_in_and_out(files, tmp_path):
    """fit, check and impute read Excel files and write them."""
    openpyxl = pytest.importorskip("openpyxl")
    for name in ("good", "faulty"):
        pd.read_csv(tmp_path / f"{name}.csv").to_excel(tmp_path / f"{name}.xlsx", index=False)
    model, scores, table = (tmp_path / name for name in ("x.bpca", "s.xlsx", "t.xlsx"))
    output_inside("fit", tmp_path / "good.xlsx", "--model", model, "--scores", scores)
    said = output_inside("check", model, tmp_path / "faulty.xlsx", "-o", table, rc=3)
    assert "sensor5" in said
    # A score and its standard deviation for each component.
    assert pd.read_excel(scores).shape == (120, 2 * bayespca.load(model).n_components_)
    assert pd.read_excel(table)["alarm"].tolist() == [0, 0, 1, 0, 0, 0]
    holes = pd.read_excel(tmp_path / "good.xlsx")
    holes.iloc[3, 2] = np.nan
    holes.to_excel(tmp_path / "holes.xlsx", index=False)
    output_inside("impute", tmp_path / "holes.xlsx", "-o", tmp_path / "full.xlsx")
    full = openpyxl.load_workbook(tmp_path / "full.xlsx").active
    assert full.max_row == 121
    assert isinstance(full["C5"].value, float)

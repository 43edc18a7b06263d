"""`bayespca check`: alarms, exit codes, and files."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from .installed import output_inside, printed_inside


def written(path, X, names):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *X.tolist()])
    return path


@pytest.fixture
def files(tmp_path):
    """A model of a process, rows near its mean, and the same with a fault in row 2."""
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
    assert "no of 6 rows with alarms" in output_inside("check", model, calm, rc=0)


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

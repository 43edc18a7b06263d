"""`bayespca fit` and `impute` on realistic tables with columns of all kinds."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array

import bayespca

from .installed import printed_inside, run, run_inside

ROWS = 160
HOLES = ("", "NA", "?", "n/a", " NaN ", "-", "null")
HOLED = ("age", "weight", "smokes", "insured", "visits", "mood", "pain", "city")
KINDS = {
    "age": "normal",
    "weight": "normal",
    "smokes": "bernoulli",
    "insured": "bernoulli",
    "visits": "negative-binomial",
    "mood": "ordinal",
    "pain": "categorical",
    "city": "categorical",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(*arguments):
    return json.loads(printed_inside(*arguments, "--json")[0])


def people():
    """The texts of each column of a table that two latent dimensions generate."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(ROWS, 2))

    def chosen(z, first, second):
        return np.where(rng.logistic(size=ROWS) < z, first, second).tolist()

    def ranks(z, cuts):
        return np.digitize(z + rng.logistic(size=ROWS), cuts)

    utility = np.stack([0 * a[:, 0], 2 * a[:, 0], 2 * a[:, 1]], axis=1)
    cities = (utility + rng.gumbel(size=(ROWS, 3))).argmax(axis=1)
    return {
        "patient": [f"P{i:03d}" for i in range(ROWS)],
        "age": [str(round(50 + 12 * v)) for v in a[:, 0] + 0.3 * rng.normal(size=ROWS)],
        "weight": [f"{70 + 9 * v:.1f}" for v in a[:, 1] + 0.3 * rng.normal(size=ROWS)],
        "smokes": chosen(2 * a[:, 0], "yes", "no"),
        "insured": chosen(2 * a[:, 1], "TRUE", "FALSE"),
        "visits": rng.negative_binomial(3, 3 / (3 + np.exp(1 + a[:, 0]))).astype(str).tolist(),
        "mood": (ranks(2 * a[:, 0] - a[:, 1], [-2, -0.7, 0.7, 2]) + 1).astype(str).tolist(),
        "pain": np.array(["none", "mild", "severe"])[ranks(a.sum(axis=1), [-0.6, 0.9])].tolist(),
        "city": np.array(["Berlin", "Paris", "Rome, IT"])[cities].tolist(),
        "admitted": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(ROWS)],
        "remark": [f"said {i * 7 % 131}" for i in range(ROWS)],
        "site": ["north"] * ROWS,
    }


def messy(path="x.csv", share=0.08, **changes):
    """Write the table with holes in several spellings, and return its fields by row."""
    rng, columns = np.random.default_rng(2), people() | changes
    lines = [list(columns)]
    for fields in zip(*columns.values(), strict=True):
        found = list(fields)
        for j, name in enumerate(columns):
            if name in HOLED and rng.random() < share:
                found[j] = HOLES[rng.integers(len(HOLES))]
        lines.append(found)
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return lines


def is_hole(field):
    return field.strip().lower() in {hole.strip().lower() for hole in HOLES}


# --- defaults ----------------------------------------------------------------------------------


def test_the_command_says_what_it_took_each_column_for(folder):
    messy()
    said = run("fit", "x.csv", "--model", "m.bpca", "--loadings", "l.csv", "--report", "r.html")
    assert (
        "Columns were read as numbers ('age', 'weight'), yes/no ('smokes', 'insured'), counts "
        "('visits'), ranks ('mood'), categories ('pain', 'city'): --likelihood COLUMN=KIND changes "
        "that; --numbers-only analyses the numbers alone."
    ) in said
    assert "Skipped columns: 'admitted' (dates), 'remark' (131 different texts)" in said
    assert "'site' (one level, 'north')" in said
    assert "turn dates into numbers" in said
    assert "'none' in column 'pain' is a level: --na none makes it a hole." in said
    model = bayespca.load("m.bpca")
    assert isinstance(model, bayespca.GeneralizedPCA)
    assert model.likelihoods_ == KINDS
    assert model.n_components_ == 2
    assert pd.read_csv("l.csv")["feature"].tolist() == model.cell_names_
    page = (folder / "r.html").read_text("utf-8")
    assert "Where the categories lie" in page
    assert "visits (count)" in page
    assert "GeneralizedPCA" in run("info", "m.bpca")
    assert parsed("info", "m.bpca")["likelihoods"] == KINDS


def test_json_has_the_same(folder):
    messy()
    found = parsed("fit", "x.csv")
    assert found["class"] == "GeneralizedPCA"
    assert found["likelihoods"] == KINDS
    assert list(found["columns_set_aside"]) == ["admitted", "remark", "site"]
    assert found["id_column"] == "patient"
    assert any("Columns were read as" in note for note in found["notes"])


def test_numbers_alone_are_a_pca_as_before(folder):
    columns = people()
    few = {name: columns[name] for name in ("age", "weight", "visits", "mood")}
    pd.DataFrame(few).to_csv("x.csv", index=False)
    assert parsed("fit", "x.csv")["engine"]
    # Ids, dates and remarks are not categories.
    many = few | {name: columns[name] for name in ("patient", "admitted", "remark", "site")}
    pd.DataFrame(many).to_csv("y.csv", index=False)
    ours, same = (parsed("fit", name) for name in ("y.csv", "x.csv"))
    assert ours["free_energy"] == pytest.approx(same["free_energy"], rel=1e-12)
    assert ours["columns_set_aside"]["remark"] == "text"


def test_numbers_only_is_what_was_done_before(folder):
    messy()
    messy("y.csv", smokes=[""] * ROWS, pain=[""] * ROWS, city=[""] * ROWS)
    ours, same = (parsed("fit", name, "--numbers-only") for name in ("x.csv", "y.csv"))
    assert ours["n_features"] == 5
    assert ours["free_energy"] == pytest.approx(same["free_energy"], rel=1e-12)


def test_options_of_a_pca_of_numbers_ask_for_one(folder):
    messy()
    said = run_inside("fit", "x.csv", "--scale")
    assert "160 samples × 5 features" in said
    assert "Without --scale, 'smokes', 'pain', 'city' would be analysed as well." in said
    said = run_inside("fit", "x.csv", "--scale", "--likelihood", "auto", rc=1)
    assert "--likelihood cannot be used with --scale: leave one out." in said


def test_a_label_is_no_feature(folder):
    columns = people()
    table = {name: columns[name] for name in ("age", "weight", "visits", "city")}
    pd.DataFrame(table).to_csv("x.csv", index=False)
    assert "engine" in parsed("fit", "x.csv", "--label", "city", "--report", "r.html")
    assert parsed("fit", "x.csv")["class"] == "GeneralizedPCA"


def test_likelihoods_of_numbers_can_be_asked_for(folder):
    columns = people()
    pd.DataFrame({name: columns[name] for name in ("age", "weight", "visits", "mood")}).to_csv(
        "x.csv", index=False
    )
    found = parsed("fit", "x.csv", "--likelihood", "visits=poisson,mood=categorical")
    assert found["likelihoods"] == {
        **{"age": "normal", "weight": "normal"},
        **{"visits": "poisson", "mood": "categorical"},
    }
    assert "numbers-only" not in " ".join(found["notes"])


def test_texts_with_an_order(folder):
    messy()
    found = parsed("fit", "x.csv", "--order", "pain=none,mild,severe")
    assert found["likelihoods"] == KINDS | {"pain": "ordinal"}


def test_sparse_counts(folder):
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.normal(size=(200, 1)) * rng.normal(size=40) - 1.5))
    mmwrite("x.mtx", coo_array(X))
    options = ("--likelihood", "poisson", "--row-sizes", "--model", "m.bpca", "--scores", "s.csv")
    found = parsed("fit", "x.mtx", *options)
    assert set(found["likelihoods"].values()) == {"poisson"}
    model = bayespca.load("m.bpca")
    assert model.row_sizes
    np.testing.assert_allclose(
        pd.read_csv("s.csv")["component 1"], model.transform(X)[:, 0], atol=1e-6
    )
    said = run_inside("fit", "x.mtx", "--likelihood", "normal", rc=1)
    assert "X is sparse, and its column 'x0' is 'normal'" in said


# --- in and out --------------------------------------------------------------------------------


def test_holes_are_filled_and_all_else_stays(folder):
    lines = messy()
    said = run("impute", "x.csv", "-o", "y.csv", "--intervals", "--draws", "2", "--save", "m.bpca")
    holes = [(i, j) for i, row in enumerate(lines) for j, f in enumerate(row) if is_hole(f)]
    assert f"{len(holes)} holes" in said
    levels = {name: set(values) for name, values in people().items()}
    for name in ("y.csv", "y-draw-1.csv", "y-draw-2.csv"):
        with Path(name).open(newline="") as file:
            full = list(csv.reader(file))
        for i, (ours, theirs) in enumerate(zip(full, lines, strict=True)):
            for j, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                if (i, j) not in holes:
                    assert one == other
                elif lines[0][j] in ("smokes", "insured", "mood", "pain", "city"):
                    assert one in levels[lines[0][j]]
                elif lines[0][j] in ("age", "visits"):
                    assert one.isdigit()
                else:
                    assert np.isfinite(float(one))
    about = pd.read_csv("y-intervals.csv", dtype=str, keep_default_na=False)
    assert len(about) == len(holes)
    assert set(about["row"]) <= set(people()["patient"])
    ages = about[about["column"] == "age"]
    assert (ages["low"].astype(int) <= ages["value"].astype(int)).all()
    assert (ages["value"].astype(int) <= ages["high"].astype(int)).all()
    cities = about[about["column"] == "city"]
    assert (cities["low"] == "").all()
    assert cities["probability"].astype(float).between(1 / 3, 1).all()


def test_filled_cells_are_better_than_the_most_frequent(folder):
    truth = pd.DataFrame(people())
    lines = messy(share=0.2)
    run("impute", "x.csv", "-o", "y.csv")
    full = pd.read_csv("y.csv", dtype=str, keep_default_na=False)
    hidden = pd.DataFrame(lines[1:], columns=lines[0]).map(is_hole)
    for name in ("smokes", "insured", "city"):
        right = (full[name] == truth[name])[hidden[name]].mean()
        assert right > (truth[name] == truth[name].mode()[0]).mean()


def test_types_of_parquet_are_kept(folder):
    table = pd.DataFrame(people())
    types = {"age": "Int64", "weight": "float32", "visits": "Int16", "mood": "Int8"}
    for name, kind in types.items():
        table[name] = pd.to_numeric(table[name]).astype(kind)
    table["insured"] = (table["insured"] == "TRUE").astype("boolean")
    table["pain"] = pd.Categorical(table["pain"], ["none", "mild", "severe"], ordered=True)
    table["city"] = table["city"].astype("category")
    table["admitted"] = pd.to_datetime(table["admitted"])
    for j, name in enumerate(HOLED):
        table.loc[7 * j :: 31, name] = None
    table.to_parquet("x.parquet", index=False)
    found = parsed("impute", "x.parquet", "-o", "y.parquet", "--save", "m.bpca")
    assert found["likelihoods"] == KINDS | {"pain": "ordinal"}
    before, after = (pq.read_table(f"{name}.parquet") for name in "xy")
    # Arrow has two types for text, which other programs do not distinguish.
    one, other = (str(each.schema.remove_metadata()) for each in (after, before))
    assert one.replace("large_string", "string") == other.replace("large_string", "string")
    assert sum(column.null_count for column in after.columns) == 0
    for name in table:
        here = table[name].notna().to_numpy()
        ours, theirs = (np.array(each.column(name).to_pylist())[here] for each in (after, before))
        assert (ours == theirs).all()
    run("impute", "x.parquet", "-o", "z.parquet", "--model", "m.bpca")
    assert pq.read_table("z.parquet").equals(after)


def test_saved_models_meet_new_rows(folder):
    lines = messy()
    run("fit", "x.csv", "--model", "m.bpca", "--scores", "s.csv")
    # Other column order, only the model's columns, and too few rows for any text to repeat.
    names = ["city", *(name for name in HOLED if name != "city")]
    place = [lines[0].index(name) for name in names]
    with Path("new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[row[j] for j in place] for row in lines[:3]])
    run("transform", "m.bpca", "new.csv", "-o", "t.csv")
    scores, few = pd.read_csv("s.csv"), pd.read_csv("t.csv")
    for name in ("component 1", "component 2 std"):
        np.testing.assert_allclose(few[name], scores[name][:2], rtol=1e-6)
    said = run("impute", "new.csv", "--model", "m.bpca", "-o", "full.csv")
    assert "Skipped columns" not in said
    assert list(pd.read_csv("full.csv")) == names
    said = run("impute", "x.csv", "--model", "m.bpca", "-o", "f.csv", "--numbers-only", rc=1)
    assert "--numbers-only does not apply to --model" in said


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--likelihood", "weight=poisson"],
            "counts are never fractional: ask for --likelihood we",
        ),
        (["--likelihood", "remark=categorical"], "'remark' has 131 levels, more than 50: leave it"),
        (["--likelihood", "remark=categorical"], "leave it out (--drop 'remark')"),
        (["--likelihood", "site=categorical"], "has a single level, 'north', which says nothing"),
        (["--likelihood", "smokes=poisson"], "'smokes' holds labels such as 'no'"),
        (["--likelihood", "pain=ordinal"], "the lowest to the highest, as in --order pain=mild"),
        (["--likelihood", "nothing=ordinal"], "--likelihood names the column 'nothing', which is"),
        (["--order", "pain=none,mild"], "holds 'severe', which --order does not name"),
        (
            ["--order", "mood=1,2,3"],
            "'mood' holds numbers, which have an order: use --likelihood m",
        ),
        (["--numbers-only", "--likelihood", "auto"], "--numbers-only contradicts --likelihood"),
        (["--curves", "--likelihood", "auto"], "--likelihood does not apply to curves"),
    ],
)
def test_what_will_not_do_is_said_by_name(options, said, folder):
    messy()
    assert said in run_inside("fit", "x.csv", *options, rc=1)


def test_negative_counts(folder):
    visits = people()["visits"]
    visits[4] = "-3"
    messy(share=0.0, visits=visits)
    said = run_inside("fit", "x.csv", "--likelihood", "visits=poisson", rc=1)
    assert "column 'visits' holds -3 in row 4 (counting from 0), and counts are never neg" in said
    assert parsed("fit", "x.csv")["likelihoods"]["visits"] == "normal"


def test_a_level_that_the_fit_has_not_seen(folder):
    messy()
    run_inside("fit", "x.csv", "--model", "m.bpca")
    messy("new.csv", share=0.0, city=["Berlin", "Oslo", *people()["city"][2:]])
    said = run_inside("transform", "m.bpca", "new.csv", rc=1)
    assert "column 'city' holds 'Oslo' in row 1" in said
    assert "a level that the fit has not seen" in said
    assert "make it a hole to have it filled" in said


@pytest.mark.parametrize(
    "text",
    ["nonsense", "a=b", "poisson,normal", "visits=poisson,normal"],
)
def test_likelihoods_that_are_none(text, folder):
    messy()
    assert "stage=ordinal,visits=poisson" in run_inside("fit", "x.csv", "--likelihood", text, rc=2)


def test_levels_that_differ_in_case_alone(folder):
    smokes = people()["smokes"]
    smokes[::9] = ["Yes"] * len(smokes[::9])
    messy(smokes=smokes)
    said = run_inside("fit", "x.csv")
    assert "'Yes' and 'yes' in column 'smokes' count as different levels" in said


def test_texts_alone(folder):
    columns = people()
    pd.DataFrame({name: columns[name] for name in ("smokes", "pain", "city")}).to_csv(
        "x.csv", index=False
    )
    assert parsed("fit", "x.csv")["class"] == "GeneralizedPCA"
    assert "no column of numbers" in run_inside("fit", "x.csv", "--numbers-only", rc=1)
    pd.DataFrame({name: columns[name] for name in ("remark", "site")}).to_csv("y.csv", index=False)
    assert "no column of numbers" in run_inside("fit", "y.csv", rc=1)

"""Files whose rows are features, such as genes × samples."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from bayespca.datasets import low_rank
from bayespca.io.files import open_file
from bayespca.io.records import How

from .installed import output


@pytest.fixture
def genes(tmp_path):
    """Files of 8 genes × 40 samples with an annotation, and the same data as samples × genes."""
    X = low_rank(40, 8, 2, random_state=0).X
    X[3, 1] = np.nan
    frame = pd.DataFrame(X.T, columns=[f"s{i}" for i in range(40)])
    frame.insert(0, "gene", [f"G{j}" for j in range(8)])
    frame.insert(1, "chromosome", list("XYXYXYXY"))
    frame.to_csv(tmp_path / "genes.csv", index=False)
    frame.to_parquet(tmp_path / "genes.parquet")
    samples = pd.DataFrame(X, columns=frame["gene"].tolist())
    samples.insert(0, "sample", [f"s{i}" for i in range(40)])
    samples.to_csv(tmp_path / "samples.csv", index=False)
    return tmp_path


def test_rows_are_features(genes):
    options = ["--scores", "s.csv", "--loadings", "l.csv", "--model", "m.bpca", "--json"]
    found = json.loads(output("fit", "genes.csv", "--transpose", *options, cwd=genes))
    assert (found["n_samples"], found["n_features"]) == (40, 8)
    assert pd.read_csv(genes / "l.csv")["feature"].tolist() == [f"G{j}" for j in range(8)]
    scores = pd.read_csv(genes / "s.csv")
    assert scores["sample"].tolist() == [f"s{i}" for i in range(40)]
    same = json.loads(output("fit", "samples.csv", "--json", cwd=genes))
    assert found["free_energy"] == pytest.approx(same["free_energy"], rel=1e-9)
    output("transform", "m.bpca", "genes.parquet", "--transpose", "-o", "t.csv", cwd=genes)
    pd.testing.assert_frame_equal(pd.read_csv(genes / "t.csv"), scores)


@pytest.mark.parametrize("name", ["genes.csv", "genes.parquet"])
def test_tables_are_written_as_they_came(name, genes):
    said = output("impute", name, "--transpose", "-o", "full.csv", "--std", cwd=genes)
    assert "40 samples × 8 features" in said
    assert "named by its column 'gene', were read as features" in said.replace("\n        ", " ")
    given, full = pd.read_csv(genes / "genes.csv"), pd.read_csv(genes / "full.csv")
    assert list(full) == list(given)
    assert np.isfinite(full.loc[1, "s3"])
    full.loc[1, "s3"] = np.nan
    pd.testing.assert_frame_equal(full, given, rtol=1e-12)
    std = pd.read_csv(genes / "full-std.csv").set_index("gene")
    assert std.loc["G1", "s3"] > 0
    assert std["s0"].eq(0).all()
    output("denoise", name, "--transpose", "-o", "clean.csv", cwd=genes)
    clean = pd.read_csv(genes / "clean.csv")
    assert list(clean) == list(given)
    assert clean["gene"].tolist() == given["gene"].tolist()


def test_names_of_genes_without_a_heading(genes):
    """pandas writes an index under an empty heading."""
    frame = pd.read_csv(genes / "genes.csv", index_col="gene").rename_axis(None)
    frame.drop(columns="chromosome").to_csv(genes / "index.csv")
    found = json.loads(output("fit", "index.csv", "--transpose", "--json", cwd=genes))
    assert (found["n_samples"], found["n_features"]) == (40, 8)
    layout = open_file(genes / "index.csv", How(transpose=True)).layout
    assert layout.notes == (
        "The rows of the file, named by its first column, were read as features.",
    )


def test_rank_of_genes(genes):
    ranks = json.loads(output("rank", "genes.csv", "--transpose", "--json", cwd=genes))["ranks"]
    assert ranks == json.loads(output("rank", "samples.csv", "--json", cwd=genes))["ranks"]


def test_what_does_not_go_together(genes):
    said = output("fit", "genes.csv", "--transpose", "--stream", cwd=genes, rc=1)
    assert "--transpose reads all of a file: leave out --stream" in said
    (genes / "twice.csv").write_text("gene,a,b\nG1,1,2\nG2,3,4\nG1,5,6\n")
    with pytest.raises(ValueError, match="two rows called 'G1'"):
        open_file(genes / "twice.csv", How(transpose=True))

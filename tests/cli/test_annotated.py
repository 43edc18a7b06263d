"""`bayespca fit` reads and writes annotated data (.h5ad)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayespca import scverse
from bayespca.datasets import low_rank

from .installed import run_inside

ad = pytest.importorskip("anndata")


@pytest.fixture
def cells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adata = ad.AnnData(low_rank(80, 20, 2, random_state=0).X)
    adata.layers["twice"] = 2 * adata.X
    adata.write_h5ad("cells.h5ad")
    return adata


def test_components_are_where_scanpy_looks(cells):
    said = run_inside("fit", "cells.h5ad", "-o", "out.h5ad")
    assert "components 2, with a probability of " in said
    found, expected = ad.read_h5ad("out.h5ad"), scverse.pca(cells, copy=True)
    assert found.obsm["X_pca"] == pytest.approx(expected.obsm["X_pca"], abs=1e-5)
    assert found.varm["PCs"] == pytest.approx(expected.varm["PCs"], abs=1e-5)
    assert np.array_equal(found.X, cells.X)


def test_a_layer_and_json(cells):
    said = json.loads(
        run_inside("fit", "cells.h5ad", "-o", "out.h5ad", "--array", "twice", "--json")
    )
    assert (said["rank"], said["likelihood"]) == (2, "normal")
    plain = scverse.pca(cells, copy=True).obsm["X_pca"]
    assert ad.read_h5ad("out.h5ad").obsm["X_pca"] == pytest.approx(2 * plain, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cells.h5ad", "-o", "out.h5ad", "--scale"), "--scale cannot be combined with --out"),
        (("cells.h5ad", "-o", "out.h5ad", "--report", "r.html"), "--report cannot be combined"),
        (("cells.h5ad", "-o", "out.h5ad", "--clusters", "2"), "--clusters cannot be combined"),
        (("cells.h5ad", "-o", "out.h5ad", "--na", "x"), "how to read a table"),
        (("cells.h5ad", "-o", "cells.h5ad"), "would write"),
        (("cells.h5ad", "-o", "out.h5ad", "--likelihood", "g=poisson"), "one --likelihood for all"),
        (("table.csv", "-o", "out.csv"), "is not an .h5ad file"),
        (("table.csv", "-o", "out.csv", "--clusters", "2"), "is not an .h5ad file"),
        (("text.h5ad", "-o", "out.h5ad"), "cannot be read as .h5ad"),
        (("none.h5ad", "-o", "out.h5ad"), "does not exist"),
    ],
)
def test_mistakes_are_named(cells, tmp_path, arguments, words):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,5\n")
    (tmp_path / "text.h5ad").write_text("no cells")
    assert words in run_inside("fit", *arguments, rc=1)
    assert not (tmp_path / "out.h5ad").exists()

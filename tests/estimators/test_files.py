"""Fits from file paths: small files are read whole, as by the command, and may have holes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import BayesianPCA, VariationalPCA, rank_report
from bayespca.datasets import low_rank

X = low_rank(60, 6, 2, random_state=0).X
HOLES = X.copy()
HOLES[[3, 17, 40], [0, 2, 5]] = np.nan
WRITERS = {
    "x.csv": lambda table, path: table.to_csv(path, index=False),
    "x.parquet": lambda table, path: table.to_parquet(path),
}


def written(values, path):
    WRITERS[path.name](pd.DataFrame(values, columns=list("abcdef")), path)
    return path


@pytest.fixture(scope="module")
def plain():
    return BayesianPCA().fit(HOLES)


@pytest.mark.parametrize(
    ("name", "as_text"), [("x.csv", False), ("x.csv", True), ("x.parquet", False)]
)
def test_a_small_file_may_have_holes(tmp_path, plain, name, as_text):
    path = written(HOLES, tmp_path / name)
    for made in (BayesianPCA(), VariationalPCA()):
        model = made.fit(str(path) if as_text else path)
        assert list(model.feature_names_in_) == list("abcdef")
        if isinstance(model, BayesianPCA):
            assert model.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-12)
            assert model.engine_ == "holes"
    assert rank_report(path).evb == 2


def test_a_small_file_may_have_noise_of_rows(tmp_path):
    path = written(X, tmp_path / "x.csv")
    assert BayesianPCA(noise="per-sample").fit(path).noise_ == "per-sample"
    assert BayesianPCA().fit(path).engine_ != "streaming"
    assert BayesianPCA(engine="streaming").fit(path).engine_ == "streaming"


def test_a_file_that_does_not_fit_is_read_in_blocks(tmp_path, monkeypatch):
    path = written(X, tmp_path / "x.csv")
    monkeypatch.setattr("bayespca.engines.decomposing.available_memory", lambda: 1000.0)
    assert BayesianPCA().fit(path).engine_ == "streaming"


@pytest.mark.parametrize("engine", ["auto", "streaming"])
def test_a_first_line_of_numbers_is_told(tmp_path, engine):
    pd.DataFrame(X).to_csv(tmp_path / "x.csv")
    with pytest.warns(UserWarning, match="The first line .* was read as the names"):
        model = BayesianPCA(engine=engine).fit(tmp_path / "x.csv")
    assert (model.n_samples_, model.n_components_) == (60, 2)
    assert list(model.feature_names_in_) == list("012345")

"""The command accepts what Python accepts: shares of variance, "mle", tables with holes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.datasets import low_rank

from .installed import output


@pytest.mark.parametrize("wanted", [0.95, "mle", 2])
def test_numbers_of_components_are_those_of_python(wanted, tmp_path):
    X = low_rank(60, 6, 3, random_state=0).X
    np.save(tmp_path / "x.npy", X)
    options = ["--method", "ml", "--n-components", str(wanted), "--json", "--no-stability"]
    found = json.loads(output("fit", "x.npy", *options, cwd=tmp_path))
    assert found["rank"] == BayesianPCA("ml", n_components=wanted).fit(X).n_components_


def test_shares_are_between_0_and_1(tmp_path):
    said = output("fit", "x.npy", "--n-components", "1.5", cwd=tmp_path, rc=2)
    assert "a share such as 0.95" in " ".join(said.replace("│", " ").split())


def test_rules_that_can_take_holes(tmp_path):
    X = low_rank(60, 6, 2, random_state=0).X
    X[::9, 2] = np.nan
    np.save(tmp_path / "x.npy", X)
    ranks = json.loads(output("rank", "x.npy", "--json", cwd=tmp_path))["ranks"]
    assert ranks["EVB"] == 2
    said = output("rank", "x.npy", cwd=tmp_path)
    table, why = said.split("Because of the holes")
    assert "EVB" in table
    assert "Minka" not in table
    assert "Minka" in why

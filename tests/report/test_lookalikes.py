"""The report of a PCA says how often rules are right on tables drawn like the data."""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import low_rank
from bayespca.estimators._lookalikes import Lookalikes
from bayespca.report import render

from .reading import Reader


def test_the_page_has_a_table_of_rules():
    X = low_rank(60, 8, 2, random_state=0).X
    model = BayesianPCA().fit(X)
    names = {"kept by default": [2, 2, 2, 1], "Minka": [2, 1, 1, 1]}
    found = {name: np.array(numbers) for name, numbers in names.items()}
    drawn = Lookalikes(np.full(4, 2), np.full(4, 0.25), found)
    words = Reader(render(model, lookalikes=drawn)).words
    assert "Which rules are right on tables like this one" in words
    assert "On tables like this one the default is right in 75 %." in words
    assert "Minka 25 %" in words
    assert "the rule of this page 75 %" in words
    assert "on tables like this one" not in Reader(render(model)).words

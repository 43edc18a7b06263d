"""Cells that are missing because of their value, and cells that are missing by chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import BayesianPCA
from bayespca.checks.holes import CODE, holes_by_value
from bayespca.datasets import noisy
from bayespca.lowrank.imputing import by_others

SHAPES = ((30, 13), (60, 20), (100, 40), (200, 15), (40, 90))


def said(X):
    status = BayesianPCA().fit(X).status_
    return next((item.text for item in status.advice if item.code == CODE), "")


@pytest.fixture
def table():
    X = noisy("white", 150, 8, 2, strength=1.0, random_state=0).X
    return pd.DataFrame(X, columns=list("abcdefgh"))


def test_cells_above_a_limit_are_missed_by_name(table):
    table.loc[table.b > 0.5, "b"] = np.nan
    text = said(table)
    assert text.startswith("Cells of 'b' are missing more often where its predicted value is high")
    assert "imputed values are too low and their intervals may be wrong" in text
    assert "enter the limit" in text


def test_cells_below_a_limit_are_missed_by_name(table):
    table.loc[table.b < -0.5, "b"] = np.nan
    text = said(table)
    assert "'b' are missing more often where its predicted value is low" in text
    assert "imputed values are too high" in text


def test_a_little_in_every_column_is_seen_in_all_together():
    rng = np.random.default_rng(0)
    predicted = rng.normal(size=(200, 40))
    missing = (rng.random(predicted.shape) < 1 / (1 + np.exp(2 + 0.4 * predicted))).astype(float)
    text = holes_by_value(predicted, missing, [""] * 40).text
    assert "are missing more often where their predicted values are low, over all columns" in text
    assert holes_by_value(rng.permutation(predicted), missing, [""] * 40) is None


def test_several_columns_are_listed():
    predicted = np.random.default_rng(0).normal(size=(200, 5))
    missing = (predicted > 0.7).astype(float)
    text = holes_by_value(predicted, missing, list("abcde")).text
    assert "of the upper half of the rows, 0 % of the lower half); the same holds" in text
    assert "and 2 more." in text


def test_a_reason_in_another_column_is_allowed_for(table):
    """Such holes look the same but keep intervals valid, so the message allows for both."""
    other = table.corr().b.drop("b").abs().idxmax()
    table.loc[table[other] > 0.5, "b"] = np.nan
    text = said(table)
    assert "if the reason lies in other columns of the table, they are valid" in text


def test_cells_that_nothing_predicts_say_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    X[X[:, 0] > 0.5, 0] = np.nan
    assert not said(X)
    assert holes_by_value(np.zeros((50, 2)), np.eye(50, 2), ["a", "b"]) is None


def test_rows_without_any_cell_say_nothing():
    rng = np.random.default_rng(0)
    predicted, missing = rng.normal(size=(60, 3)), np.zeros((60, 3))
    missing[:20] = 1
    predicted[:20] = 5
    assert holes_by_value(predicted, missing, list("abc")) is None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["even", "uneven"])
def test_holes_by_chance_are_left_alone(shape, kind):
    """`bayespca reproduce claims/holes` has 1,000 data sets, and fewer than 1 % false alarms."""
    for seed in range(10):
        rng = np.random.default_rng((seed, 1))
        X = noisy("white", *shape, seed % 4, random_state=seed).X
        rates = np.full(shape, (0.05, 0.2, 0.4)[seed % 3])
        if kind == "uneven":
            n, p = shape
            rates = 0.15 * np.exp(0.7 * rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=p))
        X[rng.random(shape) < np.minimum(rates, 0.7)] = np.nan
        assert not said(X)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_what_the_other_cells_say_is_what_they_say_where_the_cell_is_missing(k):
    """An observed cell is predicted as if it were missing."""
    X = noisy("columns", 40, 7, k, random_state=1).X
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = BayesianPCA(noise="per-feature", n_components=k).fit(X)
    found = by_others(model.posterior_, X)
    scale, mean = model.posterior_.scale, model.mean_
    C = model.get_covariance() / np.outer(scale, scale)
    Z = (X - mean) / scale
    for i, j in ((0, 0), (3, 5), (17, 2), (39, 6)):
        others = [m for m in np.flatnonzero(~np.isnan(Z[i])) if m != j]
        expected = C[j, others] @ np.linalg.solve(C[np.ix_(others, others)], Z[i, others])
        assert found[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-12)

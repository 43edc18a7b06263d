"""Scores and loadings of a model, as tables and lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Numbers
from bayespca.estimators.summary import FittedPCA
from bayespca.estimators.wording import feature_names
from bayespca.io.records import Table

# Features named for each component, and most components listed in the terminal.
NAMED, LISTED = 3, 12


def _component_names(model: FittedPCA) -> list[str]:
    return [f"component {h + 1}" for h in range(model.n_components_)]


def score_table(model: FittedPCA, part: Table, *, std: bool = True, read: Any = None) -> Table:
    """Scores of the rows of a table, each followed by its standard deviation.

    `read` is the input of the model if that is not the table itself.
    """
    T, spread = model.transform(part if read is None else read, return_std=True)
    if std:
        return table_of_scores(T, spread, part)
    return Table(T, _component_names(model), part.ids, part.id_name)


def table_of_scores(scores: Numbers, spread: Numbers, part: Table) -> Table:
    """A table of given scores, each followed by its standard deviation."""
    both = np.stack([scores, spread], axis=2).reshape(len(scores), -1)
    numbers = [f"component {h + 1}" for h in range(scores.shape[1])]
    names = [text for name in numbers for text in (name, f"{name} std")]
    return Table(both, names, part.ids, part.id_name)


def loadings_table(model: FittedPCA) -> Table:
    """A row for each feature: its loading on each component, with standard deviation."""
    W, spread = to_numpy(model.components_).T, to_numpy(model.components_std_).T
    both = np.stack([W, spread], axis=2).reshape(len(W), -1)
    names = [text for name in _component_names(model) for text in (name, f"{name} std")]
    return Table(both, names, feature_names(model), "feature")


def cell_loadings(model: Any) -> Table:
    """A row for each column of natural parameters: its loading on each component."""
    return Table(
        to_numpy(model.components_).T, _component_names(model), model.cell_names_, "feature"
    )


def described_components(model: FittedPCA) -> list[dict[str, object]]:
    """Strength of the first components, with their main features."""
    W, names = to_numpy(model.components_), feature_names(model)
    described = []
    for h in range(min(model.n_components_, LISTED)):
        top = np.argsort(-np.abs(W[h]))[:NAMED]
        described.append(
            {
                "component": h + 1,
                "singular_value": float(model.singular_values_[h]),
                "shrunk": float(model.shrunk_singular_values_[h]),
                "explained": float(model.explained_variance_ratio_[h]),
                "mostly": [(names[j], float(W[h, j])) for j in top],
            }
        )
    return described

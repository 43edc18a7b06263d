"""What a model says of the rows and the features of a table, as tables and lists."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators.summary import FittedPCA
from bayespca.estimators.wording import feature_names
from bayespca.io.records import Table

# Features named for each component, and components that are listed in the terminal.
NAMED, LISTED = 3, 12


def _component_names(model: FittedPCA) -> list[str]:
    return [f"component {h + 1}" for h in range(model.n_components_)]


def score_table(model: FittedPCA, part: Table, *, std: bool = True) -> Table:
    """Scores of the rows of a table, each followed by its standard deviation."""
    T, spread = model.transform(part, return_std=True)
    names = _component_names(model)
    ids = part.ids
    if not std:
        return Table(T, names, ids, part.id_name)
    both = np.stack([T, spread], axis=2).reshape(len(T), -1)
    return Table(
        both, [text for name in names for text in (name, f"{name} std")], ids, part.id_name
    )


def loadings_table(model: FittedPCA) -> Table:
    """A row for each feature: its loading on every component, with standard deviation."""
    W, spread = to_numpy(model.components_).T, to_numpy(model.components_std_).T
    both = np.stack([W, spread], axis=2).reshape(len(W), -1)
    names = [text for name in _component_names(model) for text in (name, f"{name} std")]
    return Table(both, names, feature_names(model), "feature")


def described_components(model: FittedPCA) -> list[dict[str, object]]:
    """The first components, with the features that they are made of."""
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

"""Saved models: the commands that can use them, and tables of their scores and loadings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Numbers
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.persistence import load
from bayespca.estimators.summary import FittedPCA
from bayespca.estimators.wording import feature_names
from bayespca.io.records import Table

from .inputs import frame_for

# Features named for each component, and most components listed in the terminal.
NAMED, LISTED = 3, 12
# Filled cells, and their standard deviations if the model knows them.
Filled = tuple[Numbers, Numbers | None]


def component_names(k: int) -> list[str]:
    return [f"component {h + 1}" for h in range(k)]


def by_component(
    values: Numbers, spread: Numbers, rows: list[str] | None, row: str = "id"
) -> Table:
    """A column for each component, followed by one of its standard deviations."""
    both = np.stack([values, spread], axis=2).reshape(len(values), -1)
    names = [text for name in component_names(values.shape[1]) for text in (name, f"{name} std")]
    return Table(both, names, rows, _apart(row, names))


def score_table(model: FittedPCA, part: Table, *, std: bool = True, read: Any = None) -> Table:
    """Scores of the rows of a table, each followed by its standard deviation.

    `read` is the input of the model if that is not the table itself.
    """
    T, spread = model.transform(part if read is None else read, return_std=True)
    if std:
        return by_component(T, spread, part.ids, part.id_name)
    names = component_names(model.n_components_)
    return Table(T, names, part.ids, _apart(part.id_name, names))


def _apart(name: str, names: list[str]) -> str:
    """The name of the column of ids, changed if another column has it."""
    return f"{name} (id)" if name in names else name


def slice_scores(model: Any, T: Numbers) -> Table:
    """Scores of the slices of a tensor along its first mode."""
    scores = np.asarray(model.transform(T))
    return Table(scores, component_names(scores.shape[1]))


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


@dataclass(frozen=True)
class Uses:
    """Functions by which verbs use a kind of model; None for a verb that cannot use it.

    `texts` means that the model also reads columns of text, and that `impute` returns a frame.
    """

    transform: Callable[..., Table] | None = None
    denoise: Callable[[Any, Table], Numbers] | None = None
    impute: Callable[[Any, Table], Filled] | None = None
    draws: bool = False
    check: bool = False
    tensors: bool = False
    ratings: bool = False
    views: bool = False
    texts: bool = False

    @property
    def spread(self) -> bool:
        return self.impute is _with_spread

    def verbs(self) -> list[str]:
        known = ("transform", "denoise", "impute")
        found = [v for v in known if self.tensors or getattr(self, v)]
        found += ["check"] * self.check
        return found + ["predict", "recommend", "ratings"] * self.ratings + ["views"] * self.views


# --- models ------------------------------------------------------------------------------------


def saved(path: Path, verb: str) -> Any:
    """Load the fitted model in a file; raise if the verb cannot use it."""
    model = load(path)
    if not is_fitted(model):
        raise ValueError(f"{path} holds a model that is not fitted: fit it first.")
    verbs = uses_of(model).verbs()
    if verb not in verbs:
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which bayespca {verb} cannot use: use "
            f"bayespca {' or '.join(verbs)} instead."
        )
    return model


def is_fitted(model: AnyEstimator) -> bool:
    return hasattr(model, "fit_")


def uses_of(model: AnyEstimator) -> Uses:
    return USES.get(type(model).__name__, Uses())


# --- columns -----------------------------------------------------------------------------------


def columns_of(model: AnyEstimator, table: Table) -> Table:
    """The table with the columns of the fit as features; its other columns are set aside."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or table.names is None or set(table.names) <= set(wanted):
        return table
    known = set(wanted)
    if table.upright is not None:
        odd = next(name for name in table.names if name not in known)
        raise ValueError(
            f"the row {odd!r} is not among the features of the model: with --transpose, leave such "
            "rows out."
        )
    ours = [j for j, name in enumerate(table.names) if name in known]
    extra = {name: table.values[:, j] for j, name in enumerate(table.names) if name not in known}
    return replace(
        table,
        values=table.values[:, ours],
        names=[table.names[j] for j in ours],
        others=table.others | extra,
        aside=table.aside | dict.fromkeys(extra, "not in the model"),
    )


def in_order_of(table: Table, model: AnyEstimator, values: Numbers) -> Numbers:
    """Values whose columns are those of the fit, reordered like the columns of a table."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or table.names is None:
        return values
    place = {str(name): j for j, name in enumerate(wanted)}
    return values[:, [place[name] for name in table.names]]


# --- what each kind of model gives -------------------------------------------------------------


def _memberships(model: Any, part: Table, *, std: bool) -> Table:
    """The most probable cluster of each row, from 1, and the probabilities of all clusters."""
    probability = np.asarray(model.predict_proba(part), dtype=np.float64)
    names = ["cluster", *(f"cluster {k + 1} probability" for k in range(probability.shape[1]))]
    values = np.column_stack([probability.argmax(axis=1) + 1, probability])
    return Table(values, names, part.ids, part.id_name)


def _local_scores(model: Any, part: Table, *, std: bool) -> Table:
    """Clusters, and the scores of each row within its cluster."""
    found, T = _memberships(model, part, std=std), model.transform(part)
    values = np.column_stack([found.values, T])
    return replace(found, values=values, names=[*(found.names or []), *component_names(T.shape[1])])


def _with_spread(model: Any, table: Table) -> Filled:
    filled, std = model.impute(table, return_std=True)
    return filled, std


def _without_spread(model: Any, table: Table) -> Filled:
    return model.impute(table), None


def _impute_of_any_kind(model: Any, table: Table) -> Filled:
    found = model.impute(frame_for(model, table))
    return found.toarray() if is_sparse(found) else found, None


_LINEAR = Uses(
    score_table, lambda model, part: model.denoise(part), _with_spread, draws=True, check=True
)
# By the name of the class, so that a command imports only what it needs.
USES = {
    "BayesianPCA": _LINEAR,
    "VariationalPCA": _LINEAR,
    "GibbsPCA": Uses(
        score_table,
        lambda model, part: np.asarray(model.inverse_transform(model.transform(part))),
    ),
    "BinaryPCA": Uses(score_table, lambda model, part: model.predict_proba(part), _without_spread),
    "GeneralizedPCA": Uses(
        lambda model, part, *, std: score_table(model, part, std=std, read=frame_for(model, part)),
        impute=_impute_of_any_kind,
        draws=True,
        texts=True,
    ),
    "GPLVM": Uses(score_table, lambda model, part: model.denoise(part), _with_spread),
    "PCAMixture": Uses(_local_scores, lambda model, part: model.denoise(part), _without_spread),
    "BernoulliMixture": Uses(_memberships, impute=_without_spread),
    "BayesianPCAImputer": Uses(impute=lambda model, table: (model.transform(table), None)),
    "BayesianTucker": Uses(tensors=True),
    "MatrixFactorization": Uses(ratings=True),
    "MultiViewPCA": Uses(views=True),
}

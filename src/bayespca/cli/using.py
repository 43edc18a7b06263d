"""Uses of a saved model by the commands (verbs), for each kind of model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Numbers
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.persistence import load
from bayespca.io.records import Table

from .tables import score_table

# Filled cells, and their standard deviations if the model knows them.
Filled = tuple[Numbers, Numbers | None]


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
        """Whether filled cells have standard deviations."""
        return self.impute is _with_spread

    def verbs(self) -> list[str]:
        """The verbs that can use such a model."""
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
    names = [f"component {h + 1}" for h in range(T.shape[1])]
    values = np.column_stack([found.values, T])
    return replace(found, values=values, names=[*(found.names or []), *names])


def _projected(model: Any, part: Table) -> Numbers:
    return np.asarray(model.inverse_transform(model.transform(part)))


def _with_spread(model: Any, table: Table) -> Filled:
    filled, std = model.impute(table, return_std=True)
    return filled, std


def _without_spread(model: Any, table: Table) -> Filled:
    return model.impute(table), None


def _scores_of_any(model: Any, part: Table, *, std: bool) -> Table:
    from .frames import frame_for

    return score_table(model, part, std=std, read=frame_for(model, part))


def _of_any(model: Any, table: Table) -> Filled:
    from .frames import frame_for

    found = model.impute(frame_for(model, table))
    return found.toarray() if is_sparse(found) else found, None


_LINEAR = Uses(
    score_table, lambda model, part: model.denoise(part), _with_spread, draws=True, check=True
)
# By the name of the class, so that a command imports only what it needs.
USES = {
    "BayesianPCA": _LINEAR,
    "VariationalPCA": _LINEAR,
    "GibbsPCA": Uses(score_table, _projected),
    "BinaryPCA": Uses(score_table, lambda model, part: model.predict_proba(part), _without_spread),
    "GeneralizedPCA": Uses(_scores_of_any, impute=_of_any, draws=True, texts=True),
    "GPLVM": Uses(score_table, lambda model, part: model.denoise(part), _with_spread),
    "PCAMixture": Uses(_local_scores, lambda model, part: model.denoise(part), _without_spread),
    "BernoulliMixture": Uses(_memberships, impute=_without_spread),
    "BayesianPCAImputer": Uses(impute=lambda model, table: (model.transform(table), None)),
    "BayesianTucker": Uses(tensors=True),
    "MatrixFactorization": Uses(ratings=True),
    "MultiViewPCA": Uses(views=True),
}

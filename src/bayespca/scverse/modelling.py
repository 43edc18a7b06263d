"""The choice of an estimator for a matrix of annotated data."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from bayespca.estimators.generalized_pca import GeneralizedPCA
from bayespca.estimators.pca import BayesianPCA

from .matrices import CellsByGenes

Model = BayesianPCA | GeneralizedPCA

COUNTS = ("poisson", "negative-binomial")
LIKELIHOODS = ("auto", "normal", *COUNTS)


class HowToFit(NamedTuple):
    """Parameters of a fit, as in `scverse.pca`."""

    likelihood: str
    noise: str
    n_components: int | str
    random_state: int
    min_components: int = 0


def model_for(matrix: CellsByGenes, fitting: HowToFit) -> Model:
    """The estimator for a matrix; warns if raw counts are fitted with normal noise."""
    likelihood, noise, n_components, random_state, least = fitting
    if likelihood not in LIKELIHOODS:
        known = ", ".join(map(repr, LIKELIHOODS))
        raise ValueError(f"likelihood must be one of {known}; got {likelihood!r}.")
    counts = matrix.holds_counts()
    if likelihood == "normal" and counts:
        warn_of_counts(matrix)
    if likelihood == "auto":
        likelihood = "poisson" if counts else "normal"
    if likelihood == "normal":
        how: Any = {"n_components": n_components, "noise": noise, "min_components": least}
        return BayesianPCA(**how, random_state=random_state)
    if noise != "auto":
        raise ValueError(
            f"noise={noise!r} cannot be used with counts, whose noise follows from their rates."
        )
    if least:
        raise ValueError(
            f"min_components={least!r} cannot be used with counts, which keep only the components "
            "that are found."
        )
    return GeneralizedPCA(n_components, likelihood=likelihood, row_sizes=True)


def likelihood_of(model: Model) -> str:
    return "normal" if isinstance(model, BayesianPCA) else str(model.likelihood)


def warn_of_counts(matrix: CellsByGenes) -> None:
    warn(
        f"{matrix.name} holds raw counts, whose noise grows with their means: use "
        'likelihood="poisson", or run scanpy.pp.normalize_total and scanpy.pp.log1p first.'
    )


def warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)

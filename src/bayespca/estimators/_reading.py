"""Choice of the functions that read a posterior: for complete rows, or for rows with holes."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import TypeVar

from bayespca.arrays.namespaces import has_nan
from bayespca.arrays.types import Array
from bayespca.lowrank import holes_posterior
from bayespca.lowrank import posterior as complete
from bayespca.lowrank.from_complete import general
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.recognising import digests_of_few
from bayespca.lowrank.records import PCAFit, PCAPosterior, VariationalFit
from bayespca.sources.data import Data

P = TypeVar("P", PCAFit, VariationalFit)


def functions(posterior: PCAPosterior, X: Array = None) -> tuple[ModuleType, PCAPosterior]:
    """A module with `scores`, `log_density` and so on, and the posterior in the form it takes.

    Rows with holes need the general form of a posterior that was found on complete data.
    """
    if isinstance(posterior, HolesPosterior):
        return holes_posterior, posterior
    if X is not None and has_nan(X):
        return holes_posterior, general(posterior)
    return complete, posterior


def knowing_rows(data: Data, fit: P) -> P:
    """A fit that recognises the rows it was fitted to, if they are few and in memory."""
    if fit.posterior.learned_from.size or not data.where.in_memory:
        return fit
    known = replace(fit.posterior, learned_from=digests_of_few(data.values))
    return replace(fit, posterior=known)

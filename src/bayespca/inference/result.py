"""`Fit`: the one record of a finished fit."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import numpy as np

from bayespca.arrays.types import Vector
from bayespca.spectrum.records import Status

from .loop import Trace

P = TypeVar("P")
F = TypeVar("F", bound="Fit[Any]")


@dataclass(frozen=True, eq=False)
class Fit(Generic[P]):
    """A posterior, and how it was found.

    Attributes
    ----------
    posterior
        The record from which scores, densities and predictions are read.
    free_energy
        In nats, all constants included, of the data as given.
    rank_posterior
        exp(−F) of the ranks that were tried, normalised; index = rank. Empty where ranks cannot be
        compared.
    trace
        Free energy, rank, noise variance and time of each step, in the units of the data; None
        where a closed form served.
    converged
        Whether the iteration settled.
    status
        Whether the answer is exact, with advice in plain words.
    """

    posterior: P
    free_energy: float
    rank_posterior: Vector = field(default_factory=lambda: np.empty(0))
    trace: Trace | None = None
    converged: bool = True
    status: Status = field(default_factory=Status)

    @property
    def lower_bound(self) -> float:
        """The bound on the log evidence."""
        return -self.free_energy

    @property
    def n_iter(self) -> int:
        """Steps taken; a closed form is one."""
        return 1 if self.trace is None else len(self.trace)


def extended(found: Fit[Any], cls: type[F], **more: Any) -> F:
    """The fit as a record of class `cls`, with fields added or replaced by `more`."""
    shared = {part.name: getattr(found, part.name) for part in fields(found)}
    return cls(**{**shared, **more})

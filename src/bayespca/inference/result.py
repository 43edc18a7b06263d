"""`Fit`: the one record of a finished fit."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import numpy as np

from bayespca.arrays.types import Vector
from bayespca.spectrum.records import Advice, Status

from .loop import Trace

P = TypeVar("P")
F = TypeVar("F", bound="Fit[Any]")


@dataclass(frozen=True)
class Outcome(Status):
    """The status of a fit that was iterated or drawn: `ending` says how it ended."""

    ending: str = field(default="", compare=False)

    def __str__(self) -> str:
        ending = self.ending.capitalize()
        return f"{ending}. {super().__str__()}" if self.advice else self.ending


def drawn(status: Status, count: int) -> Outcome:
    """The status of a fit that consists of draws."""
    return Outcome(False, status.advice, f"{count:,} draws from the posterior")


@dataclass(frozen=True, eq=False)
class Fit(Generic[P]):
    """A posterior, and how it was found.

    Attributes
    ----------
    posterior
        The record from which scores, densities and predictions are read.
    free_energy
        In nats, all constants included, of the data as given.
    free_energy_by_rank
        The lowest free energy with each number of components, less the lowest of all, in nats;
        infinite where there is no solution or none was tried. Empty where ranks cannot be compared.
    trace
        Free energy, rank, noise variance and time of each step, in the units of the data; None
        where a closed form served.
    converged
        Whether the iteration settled.
    status
        Advice in plain words, and whether a closed form is exact; `outcome` also says how an
        iteration ended.
    """

    posterior: P
    free_energy: float
    free_energy_by_rank: Vector = field(default_factory=lambda: np.empty(0))
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

    @property
    def n_draws(self) -> int:
        """Draws that predictions are averaged over; 0 where there are none."""
        draws = getattr(self.posterior, "draws", None)
        return 0 if draws is None else int(draws.size)

    @property
    def outcome(self) -> Status:
        """The status, with how the fit ended; only closed forms are exact."""
        if self.trace is None:
            return self.status
        steps = f"{self.n_iter:,} step{'' if self.n_iter == 1 else 's'}"
        if not self.converged:
            text = f"Did not converge: stopped after {steps}; raise max_iter or tol."
            early = Status(False, (Advice("not-converged", text),)) + self.status
            return drawn(early, self.n_draws) if self.n_draws else early
        if self.n_draws:
            return drawn(self.status, self.n_draws)
        return Outcome(False, self.status.advice, f"converged after {steps}")


def extended(found: Fit[Any], cls: type[F], **more: Any) -> F:
    """The fit as a record of class `cls`, with fields added or replaced by `more`."""
    shared = {part.name: getattr(found, part.name) for part in fields(found)}
    return cls(**{**shared, **more})

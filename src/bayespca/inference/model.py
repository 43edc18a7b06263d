"""`Model`: what a model must define to be fitted by iteration, and what it may define besides.

A model is a frozen value: options that were checked, sizes, priors. `fit` does the rest: starts,
the loop, checkpoints, noise borrowed from another model, the search over ranks, units, status.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np

from bayespca.spectrum.records import Status

from .accelerating import Chart
from .loop import Info, Run
from .result import Fit

D = TypeVar("D")
S = TypeVar("S")
F = TypeVar("F", bound=Fit[Any])


@dataclass(frozen=True)
class Move(Generic[S]):
    """A change of a settled state that may lead lower: fewer components first, then more.

    `less` and `more` return None where such a change is impossible.
    """

    less: Callable[[S], S | None]
    more: Callable[[S], S | None] = lambda state: None


class Model(ABC, Generic[D, S, F]):
    """A model of data D with states S, which ends in a record F: a `Fit` or more than that.

    Its `repr` identifies it, as that of a dataclass does: checkpoints are marked with it.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # --- what every model says -----------------------------------------------------------------

    @abstractmethod
    def start(self, data: D, rng: np.random.Generator) -> S:
        """The state in which the iteration starts."""

    @abstractmethod
    def step(self, state: S, data: D) -> tuple[S, Info]:
        """The next state and its diagnostics: a pure function that never raises the free energy."""

    @abstractmethod
    def posterior(self, state: S, data: D) -> object:
        """The frozen record from which all results for users are read."""

    # --- what some models say ------------------------------------------------------------------

    # How a run starts; a closed form is not random.
    init = ""

    @property
    def has_one_start(self) -> bool:
        """Whether `start` is not random, so that more starts would be the same."""
        return self.init == "closed"

    @property
    def n_steps(self) -> int | None:
        """Steps of a run of fixed length, such as a sampler's; None where a run ends by itself.

        Such steps report a free energy of NaN, which never settles and never rises.
        """
        return None

    def first_start(self, data: D, rng: np.random.Generator) -> S:
        """The first of several starts, which may be a better one than the others."""
        return self.start(data, rng)

    def suited(self, data: D) -> tuple[Self, D]:
        """The model and the data in the form that the iteration needs."""
        return self, data

    def chart(self, data: D) -> Chart[S] | None:
        """Conversion of states into vectors and back, which lets steps be accelerated."""
        return None

    def digests(self, data: D) -> Sequence[object]:
        """Arrays and texts that differ where data do, to distinguish the checkpoints of two fits.

        By default the fields of the data, which are a record.
        """
        return list(vars(data).values())

    def moves(self, data: D) -> Sequence[Move[S]]:
        """The moves that the search over ranks tries once the iteration has settled."""
        return ()

    def wider(self, state: S) -> Self | None:
        """The model that starts with more components, if this one kept all of its own."""
        return None

    def grown(self, state: S, data: D) -> S | None:
        """A settled state with more components, to be kept if it leads lower."""
        return None

    def shrunk(self, state: S, data: D) -> tuple[S, float] | None:
        """A settled state without components of too little evidence, and a number of nats.

        It is kept if it leads to a free energy that is higher by no more than so many nats.
        """
        return None

    def lender(self) -> Model[D, Any, Any] | None:
        """The model to fit first, because this one takes its noise or its rank."""
        return None

    def lent(self, state: Any) -> Self:
        """This model with the noise or the rank of the lender's state."""
        raise TypeError(f"{type(self).__name__} has a lender but does not implement lent()")

    # --- in the units of the data --------------------------------------------------------------

    def unit(self, data: D) -> float:
        """The number that the data were divided by before the iteration; 1 if they do not say."""
        return float(getattr(data, "unit", 1.0))

    def offset(self, data: D) -> float:
        """What the units of the data add to the free energy of the iteration."""
        return 0.0

    def free_energy(self, run: Run[S], data: D) -> float:
        """The free energy in the units of the data, all constants included."""
        return run.free_energy + self.offset(data)

    def status(self, state: S, data: D) -> Status:
        """Advice in plain words; by default that on the data, if they have a `status`."""
        return cast(Status, getattr(data, "status", Status()))

    def described(self, found: Fit[Any], run: Run[S], data: D) -> F:
        """The fit with this model's further results: a subclass of `Fit`, made by `extended`."""
        return cast(F, found)

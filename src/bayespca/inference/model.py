"""What a model must say to be fitted by iteration, and what it may say besides.

A model is a frozen value: options that were checked, sizes, priors. `fit` does the rest: starts,
the loop, checkpoints, noise that another model lends, the search over ranks, units, status.
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
    """A change of a settled state that may lead lower: `less` components are tried first, then
    `more`. Either is None where it cannot be.
    """

    less: Callable[[S], S | None]
    more: Callable[[S], S | None] = lambda state: None


class Model(ABC, Generic[D, S, F]):
    """A model of data D with states S, which ends in a record F: a `Fit` or more than that.

    Its `repr` tells it from others, as that of a dataclass does: checkpoints are marked by it.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # --- what every model says -----------------------------------------------------------------

    @abstractmethod
    def start(self, data: D, rng: np.random.Generator) -> S:
        """Where the iteration starts."""

    @abstractmethod
    def step(self, state: S, data: D) -> tuple[S, Info]:
        """A pure function that never raises the free energy."""

    @abstractmethod
    def posterior(self, state: S, data: D) -> object:
        """The frozen record from which everything is read that users ask for."""

    # --- what some models say ------------------------------------------------------------------

    @property
    def has_one_start(self) -> bool:
        """Whether nothing is random in `start`, so that more starts would be the same."""
        return False

    @property
    def n_steps(self) -> int | None:
        """Steps of a run whose length is given, as that of a sampler; None where it ends by itself.
        Such steps tell a free energy of NaN, which never settles and never rises.
        """
        return None

    def first_start(self, data: D, rng: np.random.Generator) -> S:
        """The first of several starts, which may be a better one than the others."""
        return self.start(data, rng)

    def suited(self, data: D) -> tuple[Self, D]:
        """The model and the data as the iteration wants them."""
        return self, data

    def chart(self, data: D) -> Chart[S] | None:
        """How states are turned into vectors and back, so that steps can be accelerated."""
        return None

    def digests(self, data: D) -> Sequence[object]:
        """Arrays and texts that differ where data do: they tell checkpoints of two fits apart.

        By default the fields of the record that the data are.
        """
        return list(vars(data).values())

    def moves(self, data: D) -> Sequence[Move[S]]:
        """What the search over ranks tries once the iteration has settled."""
        return ()

    def wider(self, state: S) -> Self | None:
        """The model that starts with more components, where all of this one's are kept."""
        return None

    def grown(self, state: S, data: D) -> S | None:
        """A settled state with more components, to be kept if it leads lower."""
        return None

    def shrunk(self, state: S, data: D) -> tuple[S, float] | None:
        """A settled state without what there is too little evidence for, to be kept if it leads to
        a free energy that is higher by no more than so many nats.
        """
        return None

    def lender(self) -> Model[D, Any, Any] | None:
        """The model that is fitted first, because this one takes its noise or its rank."""
        return None

    def lent(self, state: Any) -> Self:
        """This model with what the state of the lender has."""
        raise TypeError(f"{type(self).__name__} has a lender but does not say what it takes")

    # --- in the units of the data --------------------------------------------------------------

    def unit(self, data: D) -> float:
        """What the data were divided by before the iteration."""
        return 1.0

    def free_energy(self, run: Run[S], data: D) -> float:
        """The free energy in the units of the data, all constants included."""
        return run.free_energy

    def status(self, state: S, data: D) -> Status:
        """Advice in plain words."""
        return Status()

    def described(self, found: Fit[Any], run: Run[S], data: D) -> F:
        """The fit with what this model knows besides: a subclass of `Fit`, by `extended`."""
        return cast(F, found)

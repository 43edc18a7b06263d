"""Binary PCA as a model: its start, its step, the ranks it tries, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.types import DOUBLE, DType
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.records import OfComponents
from bayespca.sources.binary import BinaryCells, BoolArray
from bayespca.spectrum.families import VB
from bayespca.spectrum.records import Status
from bayespca.spectrum.tolerances import GONE_OF_BITS

from .chart import BinaryChart
from .data import BinaryTable
from .normals import Normals
from .posterior import BinaryPosterior, from_factors
from .start import random_start, start, with_one_more
from .step import BinaryProblem, BinaryState, evaluated, step, without_components


@dataclass(frozen=True, eq=False)
class BinaryFit(Fit[BinaryPosterior], OfComponents):
    """A finished fit; `n_samples` counts all rows, those without values too.

    `dtype` is that of the data, and of what is read from the posterior.
    """

    n_samples: int = 0
    dtype: DType = DOUBLE

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        if not self.rank_posterior.size > self.n_components:
            raise ValueError("its components have no place among its ranks")


@dataclass(frozen=True)
class BinaryModel(BinaryProblem, Model[BinaryTable, BinaryState, BinaryFit]):
    """Logistic PCA that finds its rank; `init` as in `BinaryPCA`."""

    init: str = "closed"

    @property
    def has_one_start(self) -> bool:
        return self.init == "closed"

    def start(self, data: BinaryTable, rng: np.random.Generator) -> BinaryState:
        if self.has_one_start:
            return start(data.cells, self)
        return random_start(data.cells, self, rng)

    def step(self, state: BinaryState, data: BinaryTable) -> tuple[BinaryState, Info]:
        return step(state, data.cells, self)

    def chart(self, data: BinaryTable) -> BinaryChart:
        return BinaryChart(data.cells)

    def digests(self, data: BinaryTable) -> Sequence[object]:
        return [data.cells.ones, data.cells.seen]

    def moves(self, data: BinaryTable) -> Sequence[Move[BinaryState]]:
        return [Move(partial(self._less, data=data.cells), partial(self._more, data=data.cells))]

    def _less(self, state: BinaryState, data: BinaryCells) -> BinaryState | None:
        return evaluated(without_components(state, 1), data, self) if state.rank else None

    def _more(self, state: BinaryState, data: BinaryCells) -> BinaryState | None:
        return with_one_more(state, data) if state.rank < self.most else None

    def posterior(self, state: BinaryState, data: BinaryTable) -> BinaryPosterior:
        columns = _for_all_columns(state, data.seen.columns)
        return from_factors(state.rows, columns, state.prior)

    def status(self, state: BinaryState, data: BinaryTable) -> Status:
        return data.seen.emptiness

    def described(
        self, found: Fit[BinaryPosterior], run: Run[BinaryState], data: BinaryTable
    ) -> BinaryFit:
        return extended(found, BinaryFit, n_samples=data.seen.in_rows.size)


def binary_model(
    data: BinaryTable, *, n_components: int | None, init: str = "closed"
) -> BinaryModel:
    """The model of a table, with as many components as its size allows."""
    n, p = data.cells.shape
    most = max(min(n, p) - 1, 0) if n_components is None else min(n_components, n, p)
    return BinaryModel(Factors((p, n), VB, FactorPrior("learned"), GONE_OF_BITS), most, init)


def _for_all_columns(state: BinaryState, live: BoolArray) -> Normals:
    """Nothing is known of a column without values but its prior."""
    prior = np.append(state.prior, state.spread)
    mean = np.zeros((live.size, prior.size))
    cov = np.repeat(packed(np.diag(prior))[None, :], live.size, axis=0)
    log_dets = np.full(live.size, np.log(prior).sum())
    mean[live], cov[live] = state.columns.mean, state.columns.cov
    log_dets[live] = state.columns.log_dets
    return Normals(mean, cov, log_dets)

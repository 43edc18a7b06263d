"""Views with their own likelihoods as a model: its start, its step, its moves, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayespca.discrete.posterior import TablePosterior
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Move

from ..fit import GroupFactors
from ..pattern import cost_of_pattern
from . import posterior as read
from .chart import MixedChart
from .data import MixedViews
from .start import start, with_one_more
from .state import MixedState
from .step import probabilities, step, weakest, with_best_pair


@dataclass(frozen=True)
class MixedModel(GroupFactors[MixedViews, MixedState]):
    """Factors of natural parameters."""

    def start(self, data: MixedViews, rng: np.random.Generator) -> MixedState:
        return start(data, self.most)

    def step(self, state: MixedState, data: MixedViews) -> tuple[MixedState, Info]:
        return step(state, data)

    def chart(self, data: MixedViews) -> MixedChart:
        return MixedChart(data)

    def digests(self, data: MixedViews) -> Sequence[object]:
        return [*(part for group in data.cells.groups for part in group.digests()), data.view]

    def moves(self, data: MixedViews) -> Sequence[Move[MixedState]]:
        """Moves to a factor in one more view, then to fewer and to more factors."""
        return [
            Move(partial(with_best_pair, table=data)),
            Move(partial(self._less, table=data), partial(self._more, table=data)),
        ]

    def _less(self, state: MixedState, table: MixedViews) -> MixedState | None:
        return state.without(weakest(state, table)).evaluated(table) if state.rank else None

    def _more(self, state: MixedState, table: MixedViews) -> MixedState | None:
        return with_one_more(state, table) if state.rank < self.most else None

    def posterior(self, state: MixedState, data: MixedViews) -> TablePosterior:
        return read.posterior(read.in_order(state, data), data)

    def free_energy(self, run: Run[MixedState], data: MixedViews) -> float:
        """The free energy in the units of the data, without the cost of the pattern."""
        costs = cost_of_pattern(run.state.active, data.sizes)
        return run.free_energy + data.log_units - costs

    def of_factors(self, state: MixedState, data: MixedViews) -> dict[str, Any]:
        state = read.in_order(state, data)
        return dict(
            prior=state.prior.T,
            probability=probabilities(state, data).T,
            explained=read.explained(state, data).T,
            noise=read.noise(state, data),
            omega=read.omega(state, data),
        )

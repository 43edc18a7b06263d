"""Sampled ratings as a model: chains, run by the common loop, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit, extended
from bayespca.missing.ratings.fit import RatingsFit, RatingsModel
from bayespca.missing.ratings.posterior import RatingsPosterior
from bayespca.missing.ratings.step import RatingsState
from bayespca.spectrum.records import Status

from .data import FeaturedRatings
from .draws import RatingsDraws, joined, moments_of
from .start import start
from .step import SampledProblem, SampledState, step

# Components beyond those that EVB keeps: ones too weak to keep are still worth averaging over.
MORE = 4


@dataclass(frozen=True, eq=False)
class SampledFit(RatingsFit):
    """A finished fit; `posterior` has the moments of the draws, with factors aligned."""

    draws: RatingsDraws | None = None


@dataclass(frozen=True)
class SampledModel(SampledProblem, Model[FeaturedRatings, SampledState, SampledFit]):
    """Chains that start at EVB's answer, the fit of `begun`, with `rank` components.

    If `rank` is None, they have `MORE` components than EVB keeps.
    """

    begun: RatingsModel | None = None
    n_chains: int = 2
    n_draws: int = 100
    rank: int | None = None
    begin: RatingsState | None = field(default=None, repr=False, compare=False)

    @property
    def has_one_start(self) -> bool:
        return True

    @property
    def n_steps(self) -> int:
        return self.n_warmup + self.n_draws

    def lender(self) -> Any:
        # Any: it is a model of ratings anywhere, of which those in memory are a special case.
        return self.begun

    def lent(self, state: RatingsState) -> Self:
        rank = state.rank + MORE if self.rank is None else self.rank
        return replace(self, begin=state, rank=rank)

    def start(self, data: FeaturedRatings, rng: np.random.Generator) -> SampledState:
        assert self.begin is not None
        assert self.begun is not None
        assert self.rank is not None
        rank = min(self.rank, max(min(data.shape) - 1, 0))
        return start(self.begin, data, self.begun, self, rank=rank, n_chains=self.n_chains, rng=rng)

    def step(self, state: SampledState, data: FeaturedRatings) -> tuple[SampledState, Info]:
        return step(state, data, self)

    def digests(self, data: FeaturedRatings) -> Sequence[object]:
        return data.digests()

    def posterior(self, state: SampledState, data: FeaturedRatings) -> RatingsPosterior:
        return moments_of(joined(state, self, data))

    def status(self, state: SampledState, data: FeaturedRatings) -> Status:
        assert self.begun is not None
        assert self.begin is not None
        found = self.begun.status(self.begin, data)
        # Components too weak for EVB are among those that are averaged over.
        rest = tuple(advice for advice in found.advice if advice.code != "few-ratings")
        return replace(found, advice=rest)

    def described(
        self, found: Fit[RatingsPosterior], run: Run[SampledState], data: FeaturedRatings
    ) -> SampledFit:
        draws = joined(run.state, self, data)
        noise = float(draws.noise_variances.mean()) * data.unit**2
        # Chains always run to their given length; the draws show whether they mixed.
        return extended(found, SampledFit, noise_variance=noise, draws=draws, converged=True)

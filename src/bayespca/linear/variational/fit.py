"""Bishop's variational PCA of complete data, as a model fitted by `inference.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca import inference
from bayespca.arrays.types import Input
from bayespca.inference.loop import Info, Run
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import VariationalFit
from bayespca.lowrank.variational import BishopModel, Hyper
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.rank_posterior import posterior_of_rank

from .chart import VariationalChart
from .data import VariationalData, closed_noise, variational_data
from .posterior import noise_variance, posterior, strongest, weights
from .start import start
from .step import VariationalState, relevance, step


def fit(
    X: Input,
    hyper: Hyper,
    looping: inference.Looping,
    *,
    n_components: int | None = None,
    engine: str = "auto",
    dtype: str = "float64",
) -> VariationalFit:
    """Fit an array, a sparse matrix or a source of blocks; the posterior has the given dtype."""
    data = variational_data(X, center=hyper.has_mean, engine=engine)
    hyper = hyper.suiting(closed_noise(data), data.unit, data.mean_of_columns)
    most = min(data.d - 1, max(data.N - 1, 0))
    q = most if n_components is None else n_components
    return inference.fit(VariationalModel(hyper.in_units(data.unit), q, dtype), data, looping)


@dataclass(frozen=True)
class VariationalModel(BishopModel[VariationalData, VariationalState]):
    """Bishop's model of sums over samples; `hyper` is in their units."""

    def start(self, data: VariationalData, rng: np.random.Generator) -> VariationalState:
        return start(data, self.hyper, self.q, rng)

    def step(self, state: VariationalState, data: VariationalData) -> tuple[VariationalState, Info]:
        return step(state, data, self.hyper)

    def chart(self, data: VariationalData) -> VariationalChart:
        return VariationalChart(data, self.hyper)

    def digests(self, data: VariationalData) -> Sequence[object]:
        return [data.scatter, data.mean, data.N]

    def posterior(self, state: VariationalState, data: VariationalData) -> HolesPosterior:
        return posterior(state, data, self.hyper, self.dtype)

    def described(
        self, found: Fit[HolesPosterior], run: Run[VariationalState], data: VariationalData
    ) -> VariationalFit:
        state, order = run.state, strongest(run.state, data)
        spectrum, noise = data.found.spectrum, noise_variance(state, data, self.hyper)
        k = found.posterior.columns.rank
        return extended(
            found,
            VariationalFit,
            spectrum=spectrum,
            weights=weights(state, data, order),
            alpha=relevance(state, data, self.hyper)[order] / data.unit**2,
            noise_variance=noise,
            n_samples=data.found.n_samples,
            engine=data.found.engine,
            left_out=left_out(spectrum, posterior_of_rank(spectrum), k, noise),
        )

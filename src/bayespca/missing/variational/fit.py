"""Bishop's variational PCA of data with holes, as a model fitted by `inference.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca import inference
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info, Run
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.filling import fill
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.observed_spectrum import spectrum_of_observed
from bayespca.lowrank.records import VariationalFit, spectrum_as_if_complete
from bayespca.lowrank.variational import BishopModel, Hyper
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.rank_posterior import posterior_of_rank

from .data import VariationalTable, variational_table
from .posterior import alphas, noise_variance, posterior, weights
from .start import random_start, start
from .state import VariationalHolesChart, VariationalHolesState
from .step import step


def fit(
    X: FloatArray,
    hyper: Hyper,
    looping: inference.Looping,
    *,
    n_components: int | None = None,
    dtype: str = "float64",
) -> VariationalFit:
    """Fit a matrix of floats with NaN in its holes; the posterior has the given dtype."""
    table = variational_table(X, center=hyper.has_mean)
    q = max(min(table.rows.shape) - 1, 0) if n_components is None else n_components
    if hyper.open:
        noise = fill(table.rows, most=q).noise_variance * table.unit**2
        hyper = hyper.suiting(noise, table.unit, table.rows.location)
    return inference.fit(VariationalHolesModel(hyper, q, dtype), table, looping)


@dataclass(frozen=True)
class VariationalHolesModel(BishopModel[VariationalTable, VariationalHolesState]):
    """Bishop's model of the observed cells; `hyper` is in the units of the data."""

    def first_start(
        self, data: VariationalTable, rng: np.random.Generator
    ) -> VariationalHolesState:
        return start(data.rows, self.hyper.in_units(data.unit), self.q)

    def start(self, data: VariationalTable, rng: np.random.Generator) -> VariationalHolesState:
        return random_start(data.rows, self.hyper.in_units(data.unit), self.q, rng)

    def step(
        self, state: VariationalHolesState, data: VariationalTable
    ) -> tuple[VariationalHolesState, Info]:
        return step(state, data.rows, self.hyper.in_units(data.unit))

    def chart(self, data: VariationalTable) -> VariationalHolesChart:
        return VariationalHolesChart(data.rows, self.hyper.in_units(data.unit))

    def digests(self, data: VariationalTable) -> Sequence[object]:
        return [data.X]

    def posterior(self, state: VariationalHolesState, data: VariationalTable) -> HolesPosterior:
        return posterior(state, data, self.hyper, self.dtype)

    def described(
        self, found: Fit[HolesPosterior], run: Run[VariationalHolesState], data: VariationalTable
    ) -> VariationalFit:
        state, n = run.state, len(data.X)
        W, noise = weights(state, data), noise_variance(state, data, self.hyper)
        k, shape = found.posterior.columns.rank, (data.rows.shape[1], n - self.hyper.has_mean)
        # Singular values that a complete matrix would have shown for these components.
        d, M = (max(size, k, 1) for size in shape)
        gamma = np.sqrt(M * (np.linalg.svd(W[:, :k], compute_uv=False) ** 2 + noise))
        shown = spectrum_of_observed(found.posterior, data.rows, data.live, n).spectrum
        return extended(
            found,
            VariationalFit,
            spectrum=spectrum_as_if_complete(gamma, (d, M), noise),
            weights=W,
            alpha=alphas(state, data, self.hyper),
            noise_variance=noise,
            n_samples=n,
            left_out=left_out(shown, posterior_of_rank(shown), k, noise),
        )

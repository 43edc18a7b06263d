"""`ClosedForm`: a method with its settings, which can be applied to any spectrum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .methods import EVB, Method
from .noise import zero_db
from .rank_posterior import posterior_of_rank
from .records import RankPosterior, Solution, Spectrum
from .solving import solve

# Stands for all singular values: more than there can be.
EVERYTHING = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class ClosedForm:
    """The closed form of a method; names and meanings as in `BayesianPCA`.

    Engines use it as a plan. It caches its last answer, because an engine and then the fit solve
    the same spectrum. `n_features` counts all columns of the data: a spectrum knows only those that
    vary, but noise at 0 dB is half the mean square of all of them. `exactly` fixes the number of
    components kept. For a method that needs a rank, `share` keeps as many components as hold more
    than this part of the squares.
    """

    method: Method = EVB
    n_components: int | None = None
    noise_variance: float | str = "auto"
    prior_variance: float | None = None
    n_features: int | None = None
    exactly: int | None = None
    share: float | None = None

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
        """Solve a spectrum; `other_ranks` adds the free energies of other ranks."""
        return self._solved(spectrum, other_ranks=other_ranks)

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise is to be estimated, and this method does so by itself."""
        return self.noise_variance == "auto" and self.method.estimates_noise(self.prior_variance)

    @cached_property
    def _solved(self) -> Callable[..., Solution]:
        """`solve` with its last answer cached; the shape limits the cap on the rank."""

        @lru_cache(maxsize=1)
        def solved(spectrum: Spectrum, *, other_ranks: bool) -> Solution:
            cap = self.n_components if self.share is None else _n_for(self.share, spectrum)
            return solve(
                spectrum,
                self.method.name,
                noise_variance=self._noise(spectrum),
                prior_variance=self.prior_variance,
                max_rank=None if cap is None else min(cap, spectrum.full_rank),
                other_ranks=other_ranks,
                exactly=self.exactly,
            )

        return solved

    def ranks(
        self,
        spectrum: Spectrum,
        noise_variance: float,
        *,
        per_component: float = 0.0,
    ) -> RankPosterior:
        """Posterior probabilities of the numbers of components.

        `noise_variance` counts only if the user gave a number: "0db" is no knowledge of the noise.
        """
        return posterior_of_rank(
            spectrum,
            noise_variance=None if isinstance(self.noise_variance, str) else noise_variance,
            per_component=per_component,
        )

    def _noise(self, spectrum: Spectrum) -> float | str:
        if self.noise_variance != "0db" or self.n_features is None or not spectrum.sum_of_squares:
            return self.noise_variance
        share = spectrum.shape[0] / self.n_features
        return zero_db(spectrum) * share * spectrum.scale * spectrum.scale

    @property
    def sets_rows_aside(self) -> bool:
        """Whether rows of zeros may be left out; noise at 0 dB is a mean over all rows."""
        return self.noise_variance != "0db"

    @property
    def n_needed(self) -> int:
        """Number of singular values that are sure to be needed.

        A method that drops all of the noise needs none for certain; the others keep part of the
        noise, or look at all of it.
        """
        if self.share is not None:
            return EVERYTHING
        if self.n_components is not None and (self.method.chooses_rank or self.method.needs_rank):
            return self.n_components
        return 0 if self.method.drops_noise else EVERYTHING


def _n_for(share: float, spectrum: Spectrum) -> int:
    """Number of leading singular values that hold more than this part of all squares."""
    squares = spectrum.singular_values**2
    held = np.cumsum(squares) / max(spectrum.sum_of_squares, float(np.finfo(np.float64).tiny))
    return min(int(np.searchsorted(held, share, side="right")) + 1, squares.size)

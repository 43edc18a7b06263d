"""The record of a fitted `MatrixFactorization`: factors, their ids, and who rated what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.types import Counts, FloatArray, Identifiers, Numbers
from bayespca.inference.result import extended
from bayespca.missing.ratings.fit import RatingsFit
from bayespca.missing.ratings.posterior import RatingsFactor, RatingsPosterior
from bayespca.missing.sampled.draws import RatingsDraws
from bayespca.missing.sampled.fit import SampledFit
from bayespca.spectrum.records import Status

from . import _arviz, _ratings

# Above this, chains are in different places. Predictions average over all chains and mix sooner
# than single parameters, for whose intervals the usual limit of 1.01 is meant.
LARGEST_R_HAT = 1.2


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorizationFit(RatingsFit):
    """A finished fit; names as in `MatrixFactorization`."""

    users: Identifiers
    items: Identifiers
    seen_starts: Counts
    seen_items: Counts
    n_duplicates: int
    bounds: tuple[float, float] | None
    draws: RatingsDraws | None = None
    r_hat: dict[str, float] | None = None
    ess: dict[str, float] | None = None

    @property
    def predictor(self) -> RatingsPosterior | RatingsDraws:
        """The source of predictions: the posterior, or draws from it."""
        return self.posterior if self.draws is None else self.draws

    @property
    def n_components(self) -> int:
        return self.posterior.rank

    @property
    def n_draws(self) -> int:
        return 0 if self.draws is None else self.draws.size

    @property
    def mean(self) -> float:
        """m in the units of the ratings: the prediction for an unknown user and an unknown item."""
        return float(self.posterior.mean * self.posterior.unit + self.posterior.location)

    @property
    def mean_rating(self) -> float:
        """The mean of all ratings, which a model with biases subtracts."""
        if not self.posterior.biases:
            raise AttributeError("this model has no biases, and does not know the mean rating.")
        return self.posterior.location

    @property
    def n_ratings(self) -> int:
        return int(self.seen_items.size)

    def factors(self, side: RatingsFactor) -> Numbers:
        """Posterior means of the factors of users or items; products have the ratings' unit."""
        return side.mean[:, : self.n_components] * self._root(side)

    def factors_std(self, side: RatingsFactor) -> Numbers:
        return side.std()[:, : self.n_components] * self._root(side)

    def biases(self, side: RatingsFactor) -> Numbers:
        """Biases of users or items in units of ratings; AttributeError for models without them."""
        if not self.posterior.biases:
            raise AttributeError("this model has no biases.")
        unit = side.mean.dtype.type(self.posterior.unit)
        return np.asarray(side.mean[:, self.n_components] * unit)

    def _root(self, side: RatingsFactor) -> Any:
        return side.mean.dtype.type(np.sqrt(self.posterior.unit))

    def check(self) -> None:
        """Raise ValueError unless the parts are consistent."""
        posterior, n, m = self.posterior, self.users.size, self.items.size
        for side, size, name in ((posterior.rows, n, "user"), (posterior.columns, m, "item")):
            if side.mean.shape[0] != size:
                raise ValueError(
                    f"the sizes of its arrays do not match {size} {name}s with "
                    f"{self.n_components} components"
                )
        starts, seen = self.seen_starts, self.seen_items
        agree = starts.shape == (n + 1,) and starts[0] == 0 and starts[-1] == seen.size
        agree = agree and bool((np.diff(starts) >= 0).all())
        if not (agree and 0 <= seen.min(initial=0) and seen.max(initial=0) < m):
            raise ValueError("its lists of rated items do not match its users and items")
        if self.draws is not None:
            sizes = (self.draws.rows.shape[1], self.draws.columns.shape[1], self.draws.rank)
            if sizes != (n, m, self.n_components):
                raise ValueError("its draws do not belong to its users and items")
        if self.bounds is not None and not self.bounds[0] <= self.bounds[1]:
            raise ValueError("its bounds are not in order")


def record(fitted: RatingsFit, cells: _ratings.Cells) -> FactorizationFit:
    """The record of a fit to these cells: the fit, its users and items, and diagnostics."""
    judged: dict[str, Any] = {}
    if isinstance(fitted, SampledFit) and fitted.draws is not None:
        r_hat, ess = _arviz.diagnostics(quantities(fitted.draws)) or (None, None)
        judged = {"draws": fitted.draws, "r_hat": r_hat, "ess": ess}
    status, chains = fitted.status, mixing(judged.get("r_hat"))
    if cells.n_duplicates:
        status = status.but("duplicates", duplicates_sentence(cells.n_duplicates))
    for code, name, count in zip(
        ("empty-rows", "empty-columns"), ("users", "items"), cells.n_empty, strict=True
    ):
        if count:
            text = f"{name} without any rating: {count}. The prior answers for them."
            status = status.but(code, text)
    return extended(
        fitted,
        FactorizationFit,
        status=status + chains,
        converged=fitted.converged and not chains.advice,
        users=cells.users,
        items=cells.items,
        seen_starts=cells.starts,
        seen_items=cells.columns,
        n_duplicates=int(cells.n_duplicates),
        bounds=cells.bounds,
        **judged,
    )


def duplicates_sentence(count: int) -> str:
    repeat = "1 rating repeats" if count == 1 else f"{count} ratings repeat"
    return (
        f"{repeat} a (user, item) pair; the ratings of each such pair were averaged. "
        "Keep one of them if that is not what you want."
    )


def quantities(draws: RatingsDraws) -> dict[str, FloatArray]:
    """Quantities that do not depend on the rotation of the factors, each (chain, draw)."""
    H, shape = draws.rank, (draws.n_chains, -1)
    a, b = (x[:, :, :H].astype(np.float64) for x in (draws.rows, draws.columns))
    grams = [np.matmul(np.swapaxes(x, 1, 2), x) / x.shape[1] for x in (a, b)]
    signal = np.einsum("dhk,dhk->d", *grams) * draws.unit**2
    noise = draws.unit**2 * draws.noise_variances
    return {"noise_variance": noise.reshape(shape), "signal_variance": signal.reshape(shape)}


def mixing(r_hat: dict[str, float] | None) -> Status:
    """Advice if the chains are in different places."""
    return _arviz.mixing(r_hat, LARGEST_R_HAT, "n_warmup and n_draws")


def check_storable(fit: FactorizationFit) -> None:
    """Raise TypeError for ids that a model file cannot hold."""
    for name, ids in (("users_", fit.users), ("items_", fit.items)):
        strange = [value for value in ids if not isinstance(value, str)]
        if ids.dtype == object and strange:
            raise TypeError(
                f"cannot save {name}: the id {strange[0]!r} is a {type(strange[0]).__name__}, and "
                "a model file holds ids that are all numbers or all strings; name them by strings "
                "first."
            )

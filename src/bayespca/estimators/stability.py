"""How often the rank and the directions of data come back in halves of their rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray, Input, RandomState, Vector
from bayespca.linear.stability import WhiteRows, of_halves
from bayespca.lowrank.filtering import filtered
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Data, Where
from bayespca.sources.rounding import rounding_variances

from . import _input, _validation
from .pca import BayesianPCA, Noise
from .wording import percent

# A direction has come back if a half has most of it: the squared cosine of the angle.
COME_BACK = 0.5


@dataclass(frozen=True, eq=False)
class RankStability:
    """What came back in half samples; prints as a table.

    `rank` is that of all rows, and `ranks` says for each rank that was found in a half in how large
    a share of them. For each component of all rows, `directions` is the share of halves in which it
    came back: at least half of its square lay within what the half had kept; `overlaps` is that
    square on average, 1 where all halves have exactly this direction. `noise` is the noise model,
    whose variances are those of all rows.
    """

    rank: int
    ranks: dict[int, float]
    directions: Vector
    overlaps: Vector
    noise: str
    n_halves: int

    @property
    def share(self) -> float:
        """In how large a share of the halves the rank of all rows came back."""
        return self.ranks.get(self.rank, 0.0)

    def __str__(self) -> str:
        found = [f"{rank:4d}  {percent(share):>12s}" for rank, share in self.ranks.items()]
        kept = [
            f"{h + 1:9d}  {percent(share):>12s}  {square:.2f}"
            for h, (share, square) in enumerate(zip(self.directions, self.overlaps, strict=True))
        ]
        lines = [f"all rows: rank {self.rank}, {self.noise} noise", "rank  of the halves", *found]
        return "\n".join([*lines, *(["component  came back  overlap", *kept] if kept else [])])


def rank_stability(
    X: Input,
    *,
    n_halves: int = 100,
    center: bool = True,
    scale: bool = False,
    noise: Noise = "auto",
    random_state: RandomState = 0,
) -> RankStability:
    """Ranks and directions of half samples of X by empirical VB.

    Rows are halved at random; the halves come in pairs that have no row in common. Each finds its
    own rank, mean and level of noise. How the noise differs between rows and columns is found
    from all rows. A half has half of the information: what comes back in nearly all of them is
    there beyond doubt, and a component near the limit comes back in few.

    Parameters
    ----------
    X
        Complete data in memory.
    n_halves
        Number of half samples.
    center, scale, noise
        As in `BayesianPCA`. Cells have no noise of their own here: columns have, instead.
    random_state
        Seeds the draw of the halves.
    """
    if n_halves < 1:
        raise ValueError(f"n_halves must be at least 1, got {n_halves!r}.")
    model = BayesianPCA(center=center, scale=scale, noise=noise)
    data = _input.read(model, X, in_memory=True)
    _check(data)
    model.fit(data.values)
    if NOISES[model.noise_].cells:
        model = BayesianPCA(center=center, scale=scale, noise="per-feature").fit(data.values)
    rng = _validation.generator(random_state)
    values = on_host(data.values)
    if model.noise_ != ISOTROPIC.name:
        values = _dithered(values, rng)
    rows = _white(values, model.fit_, center=center)
    halves = of_halves(rows, n_halves, rng)
    counts = Counter(halves.ranks.tolist())
    return RankStability(
        rank=model.n_components_,
        ranks={rank: counts[rank] / n_halves for rank in sorted(counts)},
        directions=(halves.overlaps >= COME_BACK).mean(axis=0),
        overlaps=halves.overlaps.mean(axis=0),
        noise=model.noise_,
        n_halves=n_halves,
    )


def _check(data: Data) -> None:
    if data.holes:
        raise ValueError(
            "Input X contains NaN: half samples are of complete data. Fill the holes with "
            "BayesianPCAImputer first, or compare ranks of halves that you fit yourself."
        )
    if data.where is Where.SPARSE:
        raise ValueError("half samples are of dense data: call toarray() first.")
    if data.values.shape[0] < 4:
        raise ValueError(f"{data.values.shape[0]} rows are too few to halve: four are needed.")


def _dithered(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Numbers as they might have been before they were rounded: fits take account of that, too."""
    steps = np.sqrt(12 * rounding_variances(X))
    return X + steps * (rng.random(X.shape) - 0.5) if steps.any() else X


def _white(X: FloatArray, fit: PCAFit, *, center: bool) -> WhiteRows:
    """Rows whose noise is equal, by what a fit has found."""
    posterior = fit.posterior
    assert isinstance(posterior, Posterior)
    Z = X - on_host(posterior.mean)
    Z = filtered(Z / on_host(posterior.scale), posterior.correlation)
    level = np.ones(len(Z))
    if fit.noise.samples is not None:
        logs = np.log(fit.noise.samples)
        level = np.exp(0.5 * (logs.mean() - logs))
        Z *= level[:, None]
    return WhiteRows(Z, level if center else None, on_host(posterior.components))

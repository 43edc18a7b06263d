"""Stability of rank and components in halves of the rows: the record and its computation."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray, Index, Vector
from bayespca.linear.stability import WhiteRows, of_halves
from bayespca.lowrank.combined import inside
from bayespca.lowrank.filtering import filtered, innovations
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit
from bayespca.noise.asked import AUTO, EVB
from bayespca.sources.data import Data, Where
from bayespca.sources.rounding import rounding_variances
from bayespca.spectrum.rank_posterior import posterior_of_rank
from bayespca.spectrum.records import Spectrum
from bayespca.spectrum.solving import solve

from . import _input
from ._redundant import means_of_rows
from .wording import ordinal, percent

# How the number of components of halves, and of all rows, is found.
RULES = {
    AUTO: "the most probable number",
    EVB: "EVB's own number",
}
# A share of the halves that counts as nearly all; most components with fewer that are listed.
NEARLY_ALL, LISTED = 0.9, 4
# A direction has come back in a half if the squared cosine of the angle is at least this.
COME_BACK = 0.5
# Number of halves; fewest rows; and most cells for which halves are computed by default.
HALVES, FEWEST, FEW_CELLS = 100, 4, 200_000


@dataclass(frozen=True, eq=False)
class RankStability:
    """Ranks and directions that came back in half samples; prints as a table.

    `rank` is that of all rows, and `ranks` maps each rank that was found in a half to its share of
    the halves; `rule` is the value of `n_components` by which both were found. For each component
    of all rows, `directions` is the share of halves in which it came back: at least half of its
    squared length lay within the components of the half. `overlaps` is the mean of that squared
    length, 1 if all halves contain exactly this direction. `noise` is the noise model, whose
    variances are those of all rows.
    """

    rank: int
    ranks: dict[int, float]
    directions: Vector
    overlaps: Vector
    noise: str
    n_halves: int
    rule: str = AUTO

    @property
    def share(self) -> float:
        """Share of the halves in which the rank of all rows came back."""
        return self.ranks.get(self.rank, 0.0)

    @property
    def in_words(self) -> str:
        """How many components came back in nearly all halves, and how often each other did."""
        halves = f"{self.n_halves} halves of the rows"
        if not self.rank:
            return f"{percent(self.share)} of {halves} have none, too"
        back = self.directions >= NEARLY_ALL
        k = int(back.sum())
        known = f"{k} of {self.rank} {'comes' if k == 1 else 'come'} back in at least "
        known += f"{percent(NEARLY_ALL)} of {halves}"
        others = [(int(h) + 1, float(self.directions[h])) for h in np.flatnonzero(~back)]
        if len(others) > LISTED:
            shares = [share for _, share in others]
            return f"{known}, the others in {percent(min(shares))} to {percent(max(shares))}"
        return known + "".join(f", the {ordinal(h)} in {percent(share)}" for h, share in others)

    @property
    def numbers_in_words(self) -> str:
        """How many components halves have, and by which rule."""
        listed = ", ".join(f"{k} in {percent(share)}" for k, share in self.ranks.items())
        return f"{listed} of the halves ({RULES[self.rule]}; noise: {self.noise}, as in all rows)"

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain Python values, which JSON can hold."""
        lists = {"directions": self.directions.tolist(), "overlaps": self.overlaps.tolist()}
        return asdict(self) | lists | {"share": self.share}

    def __str__(self) -> str:
        found = [f"{rank:4d}  {percent(share):>12s}" for rank, share in self.ranks.items()]
        kept = [
            f"{h + 1:9d}  {percent(share):>12s}  {square:.2f}"
            for h, (share, square) in enumerate(zip(self.directions, self.overlaps, strict=True))
        ]
        first = f"all rows: rank {self.rank}, {self.noise} noise; {RULES[self.rule]}"
        lines = [first, "rank  of the halves", *found]
        return "\n".join([*lines, *(["component  came back  overlap", *kept] if kept else [])])


def of_fit(
    fit: PCAFit,
    values: FloatArray,
    *,
    center: bool,
    n_halves: int,
    rng: np.random.Generator,
    rule: str = AUTO,
) -> RankStability:
    """`rank_stability` from a fit whose noise does not vary freely from cell to cell.

    Halves count by the rule of the fit, at its variances: by EVB where it has no probabilities.
    Copies of rows are left out: in both halves, they would bring anything back.
    """
    if (rows := fit.first_rows).size:
        fit, values = _of_rows(fit, np.unique(rows)), means_of_rows(values, rows)
    rule = rule if fit.rank_posterior.size else EVB

    def count(spectrum: Spectrum) -> int:
        own = solve(spectrum, other_ranks=False).rank
        if rule == EVB:
            return own
        ranks = posterior_of_rank(spectrum, per_component=fit.noise.per_component)
        return ranks.rank if ranks.determined else own

    if fit.noise.name != ISOTROPIC.name:
        # Values as they might have been before rounding, which fits account for, too.
        steps = np.sqrt(12 * rounding_variances(values))
        values = values + steps * (rng.random(values.shape) - 0.5) if steps.any() else values
    if fit.noise.series:
        fit, values = (
            _of_rows(fit, np.arange(1, len(values))),
            innovations(values, fit.noise.series),
        )
    halves = of_halves(_white(values, fit, center=center), n_halves, rng, count)
    counts = Counter(halves.ranks.tolist())
    return RankStability(
        rank=fit.n_components,
        ranks={rank: counts[rank] / n_halves for rank in sorted(counts)},
        directions=(halves.overlaps >= COME_BACK).mean(axis=0),
        overlaps=halves.overlaps.mean(axis=0),
        noise=fit.noise.name,
        n_halves=n_halves,
        rule=rule,
    )


def is_cheap(data: Data) -> bool:
    """Whether halves are computed by default: the data are complete, in memory and small."""
    return data.where is Where.DENSE and not data.holes and are_few(*data.values.shape)


def are_few(n: int, p: int) -> bool:
    """Whether halves of n rows and p columns take no longer than a fit."""
    return n >= FEWEST and n * p <= FEW_CELLS


def check_halves(data: Data, n_halves: int) -> None:
    """Raise ValueError unless the rows can be halved, `n_halves` times."""
    if n_halves < 1:
        raise ValueError(f"n_halves must be at least 1, got {n_halves!r}.")
    _input.check_resampled(
        data,
        "half samples",
        "half samples need complete data. Fill the holes with BayesianPCAImputer first, or "
        "compare ranks of halves that you fit yourself.",
    )
    if data.values.shape[0] < FEWEST:
        raise ValueError(f"{data.values.shape[0]} rows are too few to halve: four are needed.")


def _of_rows(fit: PCAFit, rows: Index) -> PCAFit:
    own = fit.noise.samples
    return fit if own is None else replace(fit, noise=replace(fit.noise, samples=own[rows]))


def _white(X: FloatArray, fit: PCAFit, *, center: bool) -> WhiteRows:
    """Rows whitened by the noise of a fit."""
    posterior, X = inside(fit.posterior, X)
    assert isinstance(posterior, Posterior)
    Z = X - on_host(posterior.mean)
    Z = filtered(Z / on_host(posterior.scale), posterior.partials)
    level = np.ones(len(Z))
    if fit.noise.samples is not None:
        logs = np.log(fit.noise.samples)
        level = np.exp(0.5 * (logs.mean() - logs))
        Z *= level[:, None]
    return WhiteRows(Z, level if center else None, on_host(posterior.components))

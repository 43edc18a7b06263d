"""The number of components by each rule, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bayespca.lowrank.noise_models import ISOTROPIC, NOISES

from ._halves import RankStability
from .wording import likelihood


@dataclass(frozen=True)
class RankReport:
    """The rank by each rule; prints as a table.

    A rule that does not apply is None: most rules cannot use data with holes, and rules that need
    the matrix again skip large data and data that are not in memory; `not_asked` lists these and
    says why. `probable` is the most probable rank and `evb_probability` the probability of EVB's
    rank, both with equal noise. `noise_models` has EVB's rank under each noise model that was
    tried, and `noise` is the one with the most evidence. `stability` says how often ranks recur in
    half samples, with that noise. `note` says why data have no answer.
    """

    evb: int
    noise_variance: float
    threshold: float
    evb_probability: float = math.nan
    probable: int | None = None
    minka: int | None = None
    marchenko_pastur: int | None = None
    gavish_donoho: int | None = None
    parallel_analysis: int | None = None
    screenot: int | None = None
    sign_flips: int | None = None
    bi_cross_validation: int | None = None
    noise_models: dict[str, int] = field(default_factory=dict)
    noise: str = ISOTROPIC.name
    note: str = ""
    not_asked: str = ""
    # Its arrays have no equality as a whole.
    stability: RankStability | None = field(default=None, compare=False)

    def ranks(self) -> dict[str, int]:
        """Rank by name of rule."""
        found = {
            "EVB": self.evb,
            "most probable": self.probable,
            "Minka": self.minka,
            "Marchenko–Pastur edge": self.marchenko_pastur,
            "Gavish–Donoho": self.gavish_donoho,
            "ScreeNOT": self.screenot,
            "parallel analysis": self.parallel_analysis,
            "sign flips": self.sign_flips,
            "bi-cross-validation": self.bi_cross_validation,
        }
        others = {name: rank for name, rank in self.noise_models.items() if name != ISOTROPIC.name}
        found |= {f"EVB, {name}": rank for name, rank in others.items()}
        return {name: rank for name, rank in found.items() if rank is not None}

    @property
    def why(self) -> str:
        """A sentence on why rules disagree, or what they cannot see; empty if they agree."""
        if self.note:
            return self.note
        ranks = set(self.ranks().values())
        if len(ranks) == 1:
            return ""
        best = self.noise_models.get(self.noise, self.evb)
        if self.noise != ISOTROPIC.name and best != self.evb:
            return (
                f"{NOISES[self.noise].reason}: noise={self.noise!r} has the most evidence and "
                f"finds {best}. Rules that assume equal noise count differences in noise as "
                "components."
            )
        near = "Some rules keep components near the limit of what can be seen, and others do not"
        if self.minka is None:
            # The rules that are known to be stricter or laxer have not run.
            return f"{near}."
        return (
            f"{near}: parallel analysis and cross-validation ask for more than that, Minka's "
            "evidence for less."
        )

    def __str__(self) -> str:
        lines = [f"{name:28s}{rank:6d}" for name, rank in self.ranks().items()]
        if not math.isnan(self.evb_probability):
            lines[0] += f"   probability {likelihood(self.evb_probability)}, if all noise is equal"
        halves = [] if self.stability is None else ["", str(self.stability)]
        why = filter(None, [self.why, self.not_asked])
        return "\n".join(["rule                          rank", *lines, *why, *halves])

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

    None are rules that do not apply: most of them to data with holes, those that look at the matrix
    again to large data and to data that are not in memory; `not_asked` says which, and why.
    `probable` is the most probable number, `evb_probability` the probability of EVB's, both with
    equal noise. `noise_models` has EVB's rank under each noise model that was tried, and `noise` is
    the one with the most evidence.
    `stability` is what comes back in half samples, with that noise. `note` is what keeps data from
    having an answer.
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
    # Its arrays have no equality.
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
        """Why rules disagree, or what they cannot see, in a sentence; nothing where they agree."""
        if self.note:
            return self.note
        ranks = set(self.ranks().values())
        if len(ranks) == 1:
            return ""
        best = self.noise_models.get(self.noise, self.evb)
        if self.noise != ISOTROPIC.name and best != self.evb:
            return (
                f"{NOISES[self.noise].reason}: noise={self.noise!r} has the most evidence and "
                f"finds {best}. Rules that take all noise for equal count what is unequal in it "
                "as components."
            )
        near = "Some rules keep components near the limit of what can be seen, and others do not"
        if self.minka is None:
            # The rules that are known to ask for more, or for less, have not been asked.
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

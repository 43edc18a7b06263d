"""The number of components by each rule, side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayespca.lowrank.noise_models import ISOTROPIC, NOISES

from ._halves import RankStability
from ._lookalikes import DEFAULT, Lookalikes
from .wording import kept

# EVB's rule if all noise is equal.
EVB = "EVB"


@dataclass(frozen=True)
class RankReport:
    """The rank by each rule; prints as a table.

    `n_components` is the number that ``BayesianPCA()`` keeps, with `noise`, the noise model that
    has the most evidence; `probabilities` are those of each number with that noise, none if the
    data do not determine it, and `how_sure` and `sentence` say so in words. Other rules assume that
    all noise is equal, except those of `noise_models`: EVB under each noise model that was tried.
    A rule that does not apply is None: most rules cannot use data with holes, and rules that need
    the matrix again skip large data and data that are not in memory; `not_asked` lists these and
    says why. `stability` says how often ranks recur in half samples, with `noise`, `lookalikes` how
    often rules are right on tables that are drawn from the fit. `note` says why data have no
    answer.
    """

    evb: int
    noise_variance: float
    threshold: float
    n_components: int | None = None
    how_sure: str = ""
    sentence: str = ""
    probabilities: dict[int, float] = field(default_factory=dict)
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
    # Their arrays have no equality as a whole.
    stability: RankStability | None = field(default=None, compare=False)
    lookalikes: Lookalikes | None = field(default=None, compare=False)

    def ranks(self) -> dict[str, int]:
        """Rank by name of rule."""
        found = {
            DEFAULT: self.n_components,
            EVB: self.evb,
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
        if self.noise != ISOTROPIC.name and self.n_components != self.evb:
            return (
                f"{NOISES[self.noise].reason}: noise={self.noise!r} has the most evidence. "
                "Rules that assume equal noise count differences in noise as components."
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
        first = [] if self.n_components is None else [kept(self.n_components, self.how_sure), ""]
        lines = [f"{name:28s}{rank:6d}" for name, rank in self.ranks().items()]
        more = [str(part) for part in (self.lookalikes, self.stability) if part is not None]
        why = filter(None, [self.why, self.not_asked])
        table = "\n".join([*first, "rule                          rank", *lines, *why])
        return "\n\n".join([table, *more])

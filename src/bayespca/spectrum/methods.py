"""The methods by name: which prior each puts on the components, and how it learns the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from . import families, priors
from .families import Family

PriorMaker = Callable[[float, float, float], priors.Prior]


@dataclass(frozen=True)
class Method:
    """A method of Bayesian PCA on complete data.

    Attributes
    ----------
    prior
        Makes the prior from (L, M, c²).
    takes_prior
        Whether the user may give c².
    learns_noise
        Whether its free energy has a usable minimum over the noise.
    chooses_rank
        Whether thresholding finds the rank, rather than the user or an evidence.
    needs_rank
        Whether the user must give the rank.
    drops_noise
        Whether all of the noise falls below the threshold, so that a truncated spectrum will do.
    iterates
        Whether sweeps can find its answer too, as data with holes require.
    """

    name: str
    # Left out of the repr, which identifies a fit: a function's repr changes between runs.
    prior: PriorMaker = field(repr=False)
    takes_prior: bool = False
    learns_noise: bool = False
    chooses_rank: bool = True
    needs_rank: bool = False
    drops_noise: bool = False
    iterates: bool = True

    def estimates_noise(self, prior_variance: float | None) -> bool:
        """Whether it estimates the noise by itself.

        A flat prior leaves VB's free energy without a minimum; maximum likelihood has one.
        """
        if not self.chooses_rank:
            return True
        return self.learns_noise and not (self.takes_prior and prior_variance is None)


def _fixed(family: Family) -> Callable[[float, float], Family]:
    return lambda L, M: family


def _given(family: Callable[[float, float], Family]) -> PriorMaker:
    return lambda L, M, c2: priors.GivenPrior(L, M, family(L, M), c2)


def _local(family: Callable[[float, float], Family]) -> PriorMaker:
    return lambda L, M, c2: priors.local_empirical(L, M, family(L, M))


def _global(family: Callable[[float, float], Family]) -> PriorMaker:
    return lambda L, M, c2: priors.global_empirical(L, M, family(L, M))


_VB, _PB_A, _PB_B, _MAP = (_fixed(family) for family in families.FAMILIES)
_PB = families.partially_bayesian

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "evb",
            lambda L, M, c2: priors.empirical_vb(L, M),
            learns_noise=True,
            drops_noise=True,
        ),
        Method("epb", _local(_PB)),
        Method("emap", _local(_MAP), drops_noise=True),
        Method("global-epb", _global(_PB), iterates=False),
        Method("global-emap", _global(_MAP), iterates=False),
        Method("vb", _given(_VB), takes_prior=True, learns_noise=True),
        Method("pb", _given(_PB), takes_prior=True),
        Method("pb-a", _given(_PB_A), takes_prior=True),
        Method("pb-b", _given(_PB_B), takes_prior=True),
        Method("map", _given(_MAP), takes_prior=True),
        # Probabilistic PCA integrates the latent variables and has no prior on the loadings.
        Method("ml", _given(_PB_A), chooses_rank=False, needs_rank=True),
        Method("laplace", _given(_PB_A), chooses_rank=False, iterates=False),
    )
}

# Methods without a noise estimate of their own take EVB's.
EVB = METHODS["evb"]

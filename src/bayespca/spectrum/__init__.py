"""Results from singular values alone: thresholds, shrinkage, free energies, noise, ranks."""

from . import closed_form
from .families import FAMILIES, MAP, PB_A, PB_B, VB, Family, partially_bayesian
from .methods import METHODS
from .noise_law import marchenko_pastur_median
from .rank_posterior import posterior_of_rank
from .rank_rules import (
    Evidence,
    gavish_donoho,
    marchenko_pastur,
    minka,
    parallel_analysis,
    screenot,
)
from .records import Advice, Moments, RankPosterior, Solution, Spectrum, Status
from .solving import solve
from .strengths import recoverable_strength

__all__ = [
    "FAMILIES",
    "MAP",
    "METHODS",
    "PB_A",
    "PB_B",
    "VB",
    "Advice",
    "Evidence",
    "Family",
    "Moments",
    "RankPosterior",
    "Solution",
    "Spectrum",
    "Status",
    "closed_form",
    "gavish_donoho",
    "marchenko_pastur",
    "marchenko_pastur_median",
    "minka",
    "parallel_analysis",
    "partially_bayesian",
    "posterior_of_rank",
    "recoverable_strength",
    "screenot",
    "solve",
]

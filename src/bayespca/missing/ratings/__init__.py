"""Ratings: matrices that are mostly empty."""

from . import posterior
from .data import Ratings, sorted_both_ways
from .fit import Fit, Options, fit
from .posterior import Factor, Posterior

__all__ = [
    "Factor",
    "Fit",
    "Options",
    "Posterior",
    "Ratings",
    "fit",
    "posterior",
    "sorted_both_ways",
]

"""Matrices with holes."""

from bayespca.lowrank import holes_posterior as posterior
from bayespca.lowrank.holes_posterior import Posterior

from .dense.fit import Fit, Options, fit

__all__ = ["Fit", "Options", "Posterior", "fit", "posterior"]

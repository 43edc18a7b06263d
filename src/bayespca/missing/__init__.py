"""Matrices with holes."""

from bayespca.lowrank import holes_posterior as posterior
from bayespca.lowrank.holes_posterior import Posterior

from .dense.fit import Options, fit

__all__ = ["Options", "Posterior", "fit", "posterior"]

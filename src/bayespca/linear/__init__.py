"""PCA of complete matrices: the closed-form fit, and the posterior it leaves."""

from bayespca.lowrank import posterior
from bayespca.lowrank.posterior import Posterior

from .fit import Options, fit, from_decomposition

__all__ = ["Options", "Posterior", "fit", "from_decomposition", "posterior"]

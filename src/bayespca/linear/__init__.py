"""PCA of complete matrices: the closed-form fit, and the posterior it leaves."""

from .fit import Fit, Options, fit, from_decomposition
from .posterior import Posterior

__all__ = ["Fit", "Options", "Posterior", "fit", "from_decomposition"]

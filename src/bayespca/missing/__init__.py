"""Matrices with holes."""

from . import posterior
from .fit import Fit, fit
from .posterior import Posterior

__all__ = ["Fit", "Posterior", "fit", "posterior"]

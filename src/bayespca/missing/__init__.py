"""Matrices with holes."""

from . import posterior
from .fit import Fit, Options, fit
from .posterior import Posterior

__all__ = ["Fit", "Options", "Posterior", "fit", "posterior"]

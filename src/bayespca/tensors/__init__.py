"""Tensors: Bayesian Tucker factorization that finds the size of its core."""

from . import posterior
from .fit import FAMILIES, Fit, Options, fit
from .posterior import Posterior
from .ranks import unfoldings

__all__ = ["FAMILIES", "Fit", "Options", "Posterior", "fit", "posterior", "unfoldings"]

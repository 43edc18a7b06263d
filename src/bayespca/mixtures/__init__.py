"""Mixtures of PCAs: each cluster with a mean, a subspace, a rank and a noise of its own."""

from . import posterior
from .fit import Fit, Options, fit
from .posterior import MixturePosterior

__all__ = ["Fit", "MixturePosterior", "Options", "fit", "posterior"]

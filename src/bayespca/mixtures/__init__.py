"""Mixtures: clusters that are PCAs of their own, and clusters of zeros and ones."""

from . import posterior
from .bernoulli_posterior import BernoulliClusters
from .fit import Fit, Options, fit
from .posterior import MixturePosterior

__all__ = ["BernoulliClusters", "Fit", "MixturePosterior", "Options", "fit", "posterior"]

"""Mixtures: clusters that are PCAs of their own, and clusters of zeros and ones."""

from .bernoulli.posterior import BernoulliClusters
from .pca import posterior
from .pca.fit import Fit, Options, fit
from .pca.posterior import MixturePosterior

__all__ = ["BernoulliClusters", "Fit", "MixturePosterior", "Options", "fit", "posterior"]

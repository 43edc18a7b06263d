"""Mixtures."""

from .bernoulli_posterior import BernoulliClusters

__all__ = ["BernoulliClusters"]

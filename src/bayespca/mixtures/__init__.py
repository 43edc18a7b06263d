"""Mixtures: of PCAs, one for each cluster, and of Bernoulli distributions for zeros and ones."""

"""Tensors: Bayesian Tucker factorization that finds the size of its core."""

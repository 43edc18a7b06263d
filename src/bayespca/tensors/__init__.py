"""Tensors: Bayesian Tucker factorization with a learned core size."""

"""Shared parts of low-rank models: factors, rows with holes, posteriors, densities, kernels."""

"""Matrices with holes: `dense`, Bishop's `variational` PCA, `ratings` (mostly empty), `sampled`."""

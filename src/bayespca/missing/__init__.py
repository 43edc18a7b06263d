"""Matrices with holes: dense, under Bishop's priors (`variational`), and ratings, mostly empty."""

"""Draws from the posterior of generalized PCA, for likelihoods with a normal augmentation."""

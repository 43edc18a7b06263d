"""Draws from the posterior of generalized PCA, where cells can be made normal measurements."""

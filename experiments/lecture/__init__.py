"""A lecture on mixtures, projection, PCA and variational Bayes."""

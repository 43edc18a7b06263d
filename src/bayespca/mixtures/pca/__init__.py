"""Clusters, each with its own PCA."""

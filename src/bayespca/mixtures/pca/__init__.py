"""Clusters, each with a PCA of its own."""

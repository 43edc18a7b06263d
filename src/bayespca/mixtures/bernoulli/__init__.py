"""Clusters of rows of zeros and ones."""

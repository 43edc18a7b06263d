"""Mixtures: clusters that are PCAs of their own, and clusters of zeros and ones."""

"""Exact sampling from the posterior of Bishop's model."""

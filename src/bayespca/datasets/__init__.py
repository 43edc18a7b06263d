"""Generators that return the truth together with the data."""

from .synthetic import LowRank, low_rank

__all__ = ["LowRank", "low_rank"]

"""Generators that return the truth together with the data."""

from .synthetic import LowRank, LowRankTensor, low_rank, low_rank_tensor

__all__ = ["LowRank", "LowRankTensor", "low_rank", "low_rank_tensor"]

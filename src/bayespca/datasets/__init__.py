"""Generators that return the truth together with the data."""

from .noises import NoisyLowRank, noisy
from .synthetic import LowRank, LowRankTensor, low_rank, low_rank_tensor

__all__ = ["LowRank", "LowRankTensor", "NoisyLowRank", "low_rank", "low_rank_tensor", "noisy"]

"""Layers of torch networks: the ranks of their weights, and factors in their place."""

from .compressing import compress
from .ranking import LayerRank, LayerRanks, ranks

__all__ = ["LayerRank", "LayerRanks", "compress", "ranks"]

"""Layers of torch networks: find the ranks of their weights, and replace layers by factors."""

from .compressing import compress
from .ranking import LayerRank, LayerRanks, ranks

__all__ = ["LayerRank", "LayerRanks", "compress", "ranks"]

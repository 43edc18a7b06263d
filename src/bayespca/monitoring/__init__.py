"""Watching new rows with a fitted PCA: Hotelling's T² and Q, limits, and the columns at fault."""

from .rows import Alarm, Monitoring, statistics

__all__ = ["Alarm", "Monitoring", "statistics"]

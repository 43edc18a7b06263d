"""Watching new rows with a fitted PCA: Hotelling's T² and Q, limits, and the columns at fault."""

from .rows import Alarm, Calibration, Monitoring, calibrate, statistics

__all__ = ["Alarm", "Calibration", "Monitoring", "calibrate", "statistics"]

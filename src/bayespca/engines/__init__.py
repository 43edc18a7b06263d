"""Engines, which compute singular values and bases from data."""

from .decomposing import available_memory, decompose
from .records import Decomposition, Plan
from .selection import ENGINES, Job, select

__all__ = ["ENGINES", "Decomposition", "Job", "Plan", "available_memory", "decompose", "select"]

"""Engines, which compute singular values and bases from data."""

from .decomposing import ENGINES, Job, available_memory, decompose, select
from .records import Decomposition, Plan

__all__ = ["ENGINES", "Decomposition", "Job", "Plan", "available_memory", "decompose", "select"]

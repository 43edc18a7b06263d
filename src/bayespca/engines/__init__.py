"""Engines, which compute singular values and bases from data."""

from .decomposing import ENGINES, Job, decompose, select

__all__ = ["ENGINES", "Job", "decompose", "select"]

"""The one loop for everything iterative."""

from .loop import FreeEnergyError, Info, Run, run

__all__ = ["FreeEnergyError", "Info", "Run", "run"]

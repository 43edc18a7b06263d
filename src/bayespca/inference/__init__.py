"""The one loop for everything iterative."""

from .loop import FreeEnergyError, Info, Run, Trace, run

__all__ = ["FreeEnergyError", "Info", "Run", "Trace", "run"]

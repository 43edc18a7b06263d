"""The one loop for everything iterative, and what keeps a run that is broken off."""

from .checkpoint import Checkpoint, fingerprint
from .loop import Callback, FreeEnergyWarning, Info, Keeper, Run, Trace, best_of, run
from .looping import Looping

__all__ = [
    "Callback",
    "Checkpoint",
    "FreeEnergyWarning",
    "Info",
    "Keeper",
    "Looping",
    "Run",
    "Trace",
    "best_of",
    "fingerprint",
    "run",
]

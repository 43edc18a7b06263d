"""The one loop for everything iterative, and what keeps a run that is broken off."""

from .checkpoint import Checkpoint, fingerprint
from .factors import Factors, Prior
from .loop import Callback, FreeEnergyWarning, Info, Keeper, Run, Trace, best_of, run
from .looping import Looping
from .search import rank_probabilities, searched

__all__ = [
    "Callback",
    "Checkpoint",
    "Factors",
    "FreeEnergyWarning",
    "Info",
    "Keeper",
    "Looping",
    "Prior",
    "Run",
    "Trace",
    "best_of",
    "fingerprint",
    "rank_probabilities",
    "run",
    "searched",
]

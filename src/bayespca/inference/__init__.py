"""The one loop for everything iterative, and what keeps a run that is broken off."""

from .checkpoint import Checkpoint, fingerprint
from .factors import Factors, Prior, factor_energy
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
    "factor_energy",
    "fingerprint",
    "rank_probabilities",
    "run",
    "searched",
]

"""The one loop and the one `fit` for everything iterative."""

from .checkpoint import Checkpoint, fingerprint
from .loop import Callback, FreeEnergyWarning, Info, Keeper, Run, Trace, best_of, run
from .looping import Looping
from .search import rank_probabilities, searched

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
    "rank_probabilities",
    "run",
    "searched",
]

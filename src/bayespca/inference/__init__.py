"""The one loop and the one `fit` for everything iterative."""

from .checkpoint import Checkpoint
from .digest import fingerprint
from .fitting import fit, settle
from .loop import Callback, FreeEnergyWarning, Info, Keeper, Run, Trace, best_of, run
from .looping import Looping
from .model import Model, Move
from .result import Fit, extended
from .search import searched

__all__ = [
    "Callback",
    "Checkpoint",
    "Fit",
    "FreeEnergyWarning",
    "Info",
    "Keeper",
    "Looping",
    "Model",
    "Move",
    "Run",
    "Trace",
    "best_of",
    "extended",
    "fingerprint",
    "fit",
    "run",
    "searched",
    "settle",
]

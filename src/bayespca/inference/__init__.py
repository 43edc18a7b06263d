"""The one loop and the one `fit` for everything iterative."""

from .checkpoint import Checkpoint
from .digest import fingerprint
from .fitting import Looping, fit, settle
from .loop import Callback, FreeEnergyWarning, Info, Run, Storage, Trace, best_of, run
from .model import Model, Move
from .result import Fit, extended
from .search import searched

__all__ = [
    "Callback",
    "Checkpoint",
    "Fit",
    "FreeEnergyWarning",
    "Info",
    "Looping",
    "Model",
    "Move",
    "Run",
    "Storage",
    "Trace",
    "best_of",
    "extended",
    "fingerprint",
    "fit",
    "run",
    "searched",
    "settle",
]

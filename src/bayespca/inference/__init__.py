"""The one loop and the one `fit` for everything iterative."""

from .checkpoint import Checkpoint
from .digest import fingerprint
from .fitting import Looping, fit, settle
from .loop import Callback, FreeEnergyWarning, Info, Run, Trace, best_of, run
from .model import Model, Move
from .result import Fit
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
    "Trace",
    "best_of",
    "fingerprint",
    "fit",
    "run",
    "searched",
    "settle",
]

"""Plots of fitted models and of data, in the manner of scikit-learn's displays.

Each display is a small record of what it shows. `from_estimator` (or `from_data`) reads the record
and draws it; `plot` draws it again, on other axes if given. matplotlib is imported when something
is drawn, not before.
"""

from .biplot import BiplotDisplay
from .clusters import ClustersDisplay
from .density import SpectrumDensityDisplay
from .free_energy import FreeEnergyDisplay
from .hinton import HintonDisplay
from .latent import LatentDisplay, RelevanceDisplay
from .missingness import MissingnessDisplay
from .monitoring import MonitoringDisplay
from .rank import RankPosteriorDisplay
from .scores import ScoresDisplay
from .scree import ScreeDisplay
from .selection import ComponentSelectionDisplay
from .views import ViewsDisplay

__all__ = [
    "BiplotDisplay",
    "ClustersDisplay",
    "ComponentSelectionDisplay",
    "FreeEnergyDisplay",
    "HintonDisplay",
    "LatentDisplay",
    "MissingnessDisplay",
    "MonitoringDisplay",
    "RankPosteriorDisplay",
    "RelevanceDisplay",
    "ScoresDisplay",
    "ScreeDisplay",
    "SpectrumDensityDisplay",
    "ViewsDisplay",
]

"""Plots of fitted models and of data, in the manner of scikit-learn's displays.

Each display is a small record of what it shows. `from_estimator` (or `from_data`) reads the record
and draws it; `plot` draws it again, on other axes if given. matplotlib is imported when something
is drawn, not before.
"""

from .latent import LatentDisplay, RelevanceDisplay
from .maps import ClustersDisplay, HintonDisplay, MissingnessDisplay, ViewsDisplay
from .ranks import ComponentSelectionDisplay, FreeEnergyDisplay, RankPosteriorDisplay
from .scores import BiplotDisplay, MonitoringDisplay, ScoresDisplay
from .spectra import ScreeDisplay, SpectrumDensityDisplay

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

"""scikit-learn classes and one-call functions: validate, call, store."""

from .functions import RankReport, denoise, evbmf, rank_report, vbmf
from .pca import BayesianPCA, RankWarning

__all__ = [
    "BayesianPCA",
    "RankReport",
    "RankWarning",
    "denoise",
    "evbmf",
    "rank_report",
    "vbmf",
]

"""scikit-learn classes and one-call functions: validate, call, store."""

from .functions import RankReport, denoise, evbmf, rank_report, rank_rules, vbmf
from .pca import BayesianPCA, RankWarning
from .persistence import ModelFileError, load
from .summary import Summary, summarize

__all__ = [
    "BayesianPCA",
    "ModelFileError",
    "RankReport",
    "RankWarning",
    "Summary",
    "denoise",
    "evbmf",
    "load",
    "rank_report",
    "rank_rules",
    "summarize",
    "vbmf",
]

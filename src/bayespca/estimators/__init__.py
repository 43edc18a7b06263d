"""scikit-learn classes and one-call functions: validate, call, store."""

from .functions import RankReport, denoise, evbmf, rank_report, rank_rules, vbmf
from .gibbs import GibbsPCA
from .pca import BayesianPCA, RankWarning
from .persistence import ModelFileError, load
from .summary import Summary, summarize
from .variational import VariationalPCA

__all__ = [
    "BayesianPCA",
    "GibbsPCA",
    "ModelFileError",
    "RankReport",
    "RankWarning",
    "Summary",
    "VariationalPCA",
    "denoise",
    "evbmf",
    "load",
    "rank_report",
    "rank_rules",
    "summarize",
    "vbmf",
]

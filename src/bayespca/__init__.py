"""Bayesian PCA: finds its own number of components and says how sure it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from bayespca.estimators import (
        GPLVM,
        BayesianPCA,
        BayesianPCAImputer,
        BayesianTucker,
        BernoulliMixture,
        BinaryPCA,
        GeneralizedPCA,
        GibbsPCA,
        MatrixFactorization,
        MultiViewPCA,
        PCAMixture,
        VariationalPCA,
        cross_validate_entries,
        denoise,
        evbmf,
        impute,
        load,
        rank_report,
        rank_stability,
        rotate,
        select_components,
        tensor_ranks,
        vbmf,
    )

    from . import displays, imaging, layers, monitoring, report, scverse, spectrum

__all__ = [
    "GPLVM",
    "BayesianPCA",
    "BayesianPCAImputer",
    "BayesianTucker",
    "BernoulliMixture",
    "BinaryPCA",
    "GeneralizedPCA",
    "GibbsPCA",
    "MatrixFactorization",
    "MultiViewPCA",
    "PCAMixture",
    "VariationalPCA",
    "cross_validate_entries",
    "denoise",
    "displays",
    "evbmf",
    "imaging",
    "impute",
    "layers",
    "load",
    "monitoring",
    "rank_report",
    "rank_stability",
    "report",
    "rotate",
    "scverse",
    "select_components",
    "spectrum",
    "tensor_ranks",
    "vbmf",
]

_MODULES = ("displays", "imaging", "layers", "monitoring", "report", "scverse", "spectrum")


def __getattr__(name: str) -> Any:
    """Import each name on first use: the command must start quickly."""
    if name not in __all__:
        raise AttributeError(f"module 'bayespca' has no attribute {name!r}")
    if name in _MODULES:
        value = import_module(f"bayespca.{name}")
    else:
        value = getattr(import_module("bayespca.estimators"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Bayesian PCA: finds its own number of components and says how sure it is."""

from bayespca import spectrum
from bayespca.estimators import BayesianPCA, denoise, evbmf, rank_report, vbmf

__version__ = "0.1.0"

__all__ = ["BayesianPCA", "denoise", "evbmf", "rank_report", "spectrum", "vbmf"]

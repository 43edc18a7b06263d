"""Nakajima, Sugiyama, Babacan: On Bayesian PCA (ICML 2011)."""

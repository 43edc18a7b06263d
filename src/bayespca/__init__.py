"""Bayesian PCA: finds its own number of components and says how sure it is.

`bayespca.spectrum` holds everything that the singular values of a matrix decide: the rank, the
noise variance, the shrunk singular values and their uncertainty.
"""

from bayespca import spectrum

__all__ = ["spectrum"]
__version__ = "0.1.0"

"""Binary PCA."""

from .posterior import BinaryPosterior

__all__ = ["BinaryPosterior"]

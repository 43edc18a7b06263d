"""Annotated data of single cells: PCA where scanpy expects it, and layers without noise."""

from .annotating import denoise, pca

__all__ = ["denoise", "pca"]

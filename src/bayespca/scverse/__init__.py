"""Single-cell data: PCA stored where scanpy expects it, layers without noise or holes, and factors
of several modalities.
"""

from .annotated import denoise, impute, pca
from .modalities import multiview

__all__ = ["denoise", "impute", "multiview", "pca"]

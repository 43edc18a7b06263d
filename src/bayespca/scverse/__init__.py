"""Single-cell data: PCA stored where scanpy expects it, layers without noise or holes, and factors
of several modalities.
"""

from .annotating import pca
from .filling import denoise, impute
from .several import multiview

__all__ = ["denoise", "impute", "multiview", "pca"]

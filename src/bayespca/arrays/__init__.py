"""Arrays of any namespace: where they live, how small matrices are packed, threads."""

from .namespaces import array_namespace, is_sparse, to_namespace, to_numpy
from .signs import fixed_signs
from .types import Array, FloatArray

__all__ = [
    "Array",
    "FloatArray",
    "array_namespace",
    "fixed_signs",
    "is_sparse",
    "to_namespace",
    "to_numpy",
]

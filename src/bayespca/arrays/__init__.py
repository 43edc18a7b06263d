"""Arrays of any namespace: where they live, how small matrices are packed, threads."""

from .namespaces import to_namespace, to_numpy

__all__ = ["to_namespace", "to_numpy"]

"""From data to singular values and bases."""

from .arrays import array_namespace, is_sparse, to_namespace, to_numpy
from .columns import column_scales, fixed_signs, rescaled_columns
from .decompose import available_memory, decompose
from .records import Decomposition, Plan
from .select import ENGINES, Job, select
from .sources import Source, from_file, open_source

__all__ = [
    "ENGINES",
    "Decomposition",
    "Job",
    "Plan",
    "Source",
    "array_namespace",
    "available_memory",
    "column_scales",
    "decompose",
    "fixed_signs",
    "from_file",
    "is_sparse",
    "open_source",
    "rescaled_columns",
    "select",
    "to_namespace",
    "to_numpy",
]

"""Sources of rows: memory, files, iterators of blocks, partitions of a Dask collection."""

from .blocks import open_source
from .columns import column_scales, rescaled_columns
from .records import Source

__all__ = ["Source", "column_scales", "open_source", "rescaled_columns"]

"""Files: tables in and out, and archives of arrays. Knows nothing of models."""

from .array_files import mapped
from .files import open_file
from .layout import How, Layout
from .ratings_files import RatingColumns, read_pairs, read_ratings
from .records import File, Rows, Table, float_type, rows_per_block
from .tables import writable_ending, write_table

__all__ = [
    "File",
    "How",
    "Layout",
    "RatingColumns",
    "Rows",
    "Table",
    "float_type",
    "mapped",
    "open_file",
    "read_pairs",
    "read_ratings",
    "rows_per_block",
    "writable_ending",
    "write_table",
]

"""Files: tables in and out, and archives of arrays. Knows nothing of models."""

from .array_files import mapped
from .files import open_file
from .layout import How, Layout
from .records import File, Rows, Table, float_type, rows_per_block
from .tables import writable_ending, write_table

__all__ = [
    "File",
    "How",
    "Layout",
    "Rows",
    "Table",
    "float_type",
    "mapped",
    "open_file",
    "rows_per_block",
    "writable_ending",
    "write_table",
]

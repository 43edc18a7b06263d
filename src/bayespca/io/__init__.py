"""Files: reading and writing of tables, and archives of arrays. Independent of models."""

from .array_files import mapped
from .files import files_of, open_file, open_files
from .pieces import Piece, Pieces, cut_up
from .ratings_files import RatingColumns, read_pairs, read_ratings
from .records import File, How, Layout, RowBlock, Table, float_type, rows_per_block
from .tables import writable_ending, write_table

__all__ = [
    "File",
    "How",
    "Layout",
    "Piece",
    "Pieces",
    "RatingColumns",
    "RowBlock",
    "Table",
    "cut_up",
    "files_of",
    "float_type",
    "mapped",
    "open_file",
    "open_files",
    "read_pairs",
    "read_ratings",
    "rows_per_block",
    "writable_ending",
    "write_table",
]

"""Files: reading and writing of tables, and archives of arrays. Independent of models."""

from .files import files_of, open_file, open_files
from .ratings_files import read_pairs, read_ratings
from .records import How, Table
from .tables import write_table

__all__ = [
    "How",
    "Table",
    "files_of",
    "open_file",
    "open_files",
    "read_pairs",
    "read_ratings",
    "write_table",
]

"""Reports as a single HTML file: how many dimensions are in the data, and what they are."""

from .page import render, write

__all__ = ["render", "write"]

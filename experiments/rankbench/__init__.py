"""Designs by which other groups chose among rules for the number of components."""

"""Distributions of cells given their natural parameter z: one file for each likelihood."""

"""Fits of complete data by iteration, for every family and every prior."""

"""Ratings: matrices that are mostly empty."""

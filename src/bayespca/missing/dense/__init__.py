"""Matrices with holes, all of them in memory or on Dask."""

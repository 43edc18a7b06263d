"""Dense matrices with holes, in memory, on a device or on Dask."""

"""Bishop's variational PCA of data with holes."""

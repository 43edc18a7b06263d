"""Bishop's variational PCA of complete data."""

"""Complete data with noise of its own for each feature."""

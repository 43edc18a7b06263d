"""A note on probabilistic PCA: closed form, EM, the dual form, and Gaussian processes."""

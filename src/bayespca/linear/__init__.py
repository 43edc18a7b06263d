"""PCA of complete matrices: in closed form (`fit`), by sweeps, with noise of each feature, under
Bishop's priors (`variational`), and by exact sampling (`gibbs`).
"""

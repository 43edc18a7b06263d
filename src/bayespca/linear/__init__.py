"""PCA of complete matrices: in closed form (`fit`), by sweeps (`sweeps`), with unequal noise
(`scaled`), under Bishop's priors (`variational`), and by exact sampling (`gibbs`).
"""

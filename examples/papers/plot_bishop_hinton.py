"""
Can a model switch off its own components?
==========================================

Can the number of components come out of the fit itself? Bishop's "Variational principal
components" (ICANN 1999) answers with a picture: a Hinton diagram of the loadings.

The data are those of the paper: 100 points in ten dimensions, with standard deviations 5, 4, 3, 2
and six times 1. Maximum likelihood, given nine components, uses all nine.
:class:`~bayespca.VariationalPCA` starts with nine as well; a prior on each column lets it switch
off what the data do not need.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA, VariationalPCA
from bayespca.displays import HintonDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 10)) * [5, 4, 3, 2, 1, 1, 1, 1, 1, 1]

likelihood = BayesianPCA("ml", n_components=9).fit(X)
scale = np.sqrt(np.maximum(likelihood.explained_variance_ - likelihood.noise_variance_, 0))
weights = likelihood.components_.T * scale
variational = VariationalPCA(random_state=0).fit(X)
print("columns that are not switched off:", variational.n_components_)
print(f"noise standard deviation: {np.sqrt(variational.noise_variance_):.2f} (truth: 1)")

# %%
# Each square is a loading: its area is the size, its colour the sign. Rows are the ten
# dimensions, columns the components.

fig, axes = plt.subplots(1, 2, figsize=(8.5, 4.4), layout="constrained")
for ax, W, title in [
    (axes[0], weights, "Maximum likelihood"),
    (axes[1], variational.weights_, "Variational Bayes"),
]:
    HintonDisplay(W).plot(ax=ax)
    ax.set_title(title, loc="left")
plt.show()

# %%
# Four columns are left, which is the number of directions that stand out from the noise.

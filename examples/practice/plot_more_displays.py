"""
What do clusters, curves and sweeps look like?
==============================================

Some pictures belong to one kind of model. What does a mixture show of its clusters, a curved model
of its latent space, and an iteration of its way to the end?

Three models of one table: 8×8 pictures of the digits 0 to 4.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from bayespca import GPLVM, BayesianPCA, BernoulliMixture
from bayespca.displays import (
    ClustersDisplay,
    FreeEnergyDisplay,
    LatentDisplay,
    RelevanceDisplay,
)

X, digit = load_digits(n_class=5, return_X_y=True)
X, digit = X[:200], digit[:200]

# %%
# Which pixels have ink is a table of zeros and ones, and a mixture finds clusters in it. The curved
# model sees the grey levels.

mixture = BernoulliMixture(5, random_state=0).fit(X > 7)
with warnings.catch_warnings():
    # Thirty sweeps are enough for a picture.
    warnings.simplefilter("ignore", ConvergenceWarning)
    curved = GPLVM(n_inducing=20, max_iter=30, random_state=0).fit(X)
swept = BayesianPCA(solver="iterative", random_state=0).fit(X)

fig, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
ClustersDisplay.from_estimator(mixture, X > 7, ax=axes[0, 0])
LatentDisplay.from_estimator(curved, labels=digit, ax=axes[0, 1])
RelevanceDisplay.from_estimator(curved, ax=axes[1, 0])
FreeEnergyDisplay.from_estimator(swept, ax=axes[1, 1])
plt.show()

# %%
# Top left, the pictures sorted by cluster, pixels from left to right. Top right, the two most
# relevant latent dimensions, darker where the model knows less. Bottom left, how relevant each
# dimension is: those that are not needed go to zero. Bottom right, the free energy, which no sweep
# raises.

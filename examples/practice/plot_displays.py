"""
What can one see of a fitted model?
===================================

A fit is more than a number of components. Which pictures belong in a paper, and how does one get
them without writing plotting code?

:mod:`bayespca.displays` has a class for each picture, in the manner of scikit-learn:
``from_estimator`` draws it on your own axes, so several displays make one figure.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from bayespca import BayesianPCA
from bayespca.displays import (
    BiplotDisplay,
    MissingnessDisplay,
    RankPosteriorDisplay,
    ScoresDisplay,
    ScreeDisplay,
    SpectrumDensityDisplay,
)

wine = load_wine(as_frame=True)
X = wine.data.rename(columns={"od280/od315_of_diluted_wines": "od280"})
model = BayesianPCA(scale=True).fit(X)

# %%
# Six displays of one fit. The last one is about data with holes, so we make some.

holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.15)
fig, axes = plt.subplots(2, 3, figsize=(13, 7.6), layout="constrained")
ScreeDisplay.from_estimator(model, ax=axes[0, 0])
SpectrumDensityDisplay.from_estimator(model, ax=axes[0, 1])
RankPosteriorDisplay.from_estimator(model, ax=axes[0, 2])
ScoresDisplay.from_estimator(model, X, labels=wine.target_names[wine.target], ax=axes[1, 0])
BiplotDisplay.from_estimator(model, X, ax=axes[1, 1])
MissingnessDisplay.from_data(holes, ax=axes[1, 2])
plt.show()

# %%
# From left to right: singular values and the threshold of the noise; their distribution against
# the law of pure noise; the probability of each number of components; where the wines lie, with
# the uncertainty of their scores; wines and measurements in one picture; and which cells are
# missing.

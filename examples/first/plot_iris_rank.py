"""
How many dimensions do flowers have?
====================================

Four measurements of each iris: how many numbers do they amount to? `BayesianPCA` finds the number
itself, and gives the probability of every other one.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from bayespca import BayesianPCA
from bayespca.displays import RankPosteriorDisplay, ScoresDisplay

X, species = load_iris(return_X_y=True, as_frame=True)
model = BayesianPCA().fit(X)
print(model.n_components_, model.noise_, model.rank_posterior_.round(2))

# %%
# The flowers, with an error bar on each score, and how probable each number of components is.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
ScoresDisplay.from_estimator(model, X, labels=species, ax=left)
RankPosteriorDisplay.from_estimator(model, ax=right)
plt.show()

"""
How many dimensions do flowers have?
====================================

Four measurements of each iris: how many numbers do they amount to? `BayesianPCA` finds the number
itself, and says how sure it is.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from bayespca import BayesianPCA
from bayespca.displays import ScoresDisplay, ScreeDisplay

X, species = load_iris(return_X_y=True, as_frame=True)
model = BayesianPCA().fit(X)
print(model.n_components_, model.noise_)
print(model.status_)

# %%
# Four columns are too few to tell a weak component from a deviation from the noise model, so there
# are no probabilities. The flowers, with an error bar on each score, and the strengths of all
# components:
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
ScoresDisplay.from_estimator(model, X, labels=species, ax=left)
ScreeDisplay.from_estimator(model, ax=right)
plt.show()

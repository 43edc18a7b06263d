"""
What does a change of units do to PCA?
======================================

Every lecture on PCA lists its limits: it depends on the units of measurement, outliers pull at
it, and it cannot deal with missing values. Are these limits of PCA, or of its noise model?

The data are the classic of the lecture (after Rogers and Girolami, *A First Course in Machine
Learning*): three groups of 20 points along a line in two dimensions, and five further dimensions
of noise. Then one of the noise dimensions is given in grams instead of kilograms, and a tenth of
the cells is removed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer

from bayespca import BayesianPCA

rng = np.random.default_rng(0)
labels = np.repeat(np.arange(3), 20)
centres = np.array([[-5, -5], [0, 0], [5, 5]])[labels]
Y = np.column_stack([centres + rng.normal(size=(60, 2)), rng.normal(size=(60, 5))])
grams = Y * [1, 1, 1, 1, 1, 1, 1000]
holes = grams.copy()
holes[rng.random(holes.shape) < 0.1] = np.nan

# %%
# Plain PCA with two components, and the model of this package with noise of each column, which
# finds its number of components.

fig, axes = plt.subplots(2, 3, figsize=(9.5, 5.8), layout="constrained")
for column, (title, X) in enumerate(
    {"as in the lecture": Y, "one column in grams": grams, "and 10 % missing": holes}.items()
):
    model = BayesianPCA(noise="per-feature").fit(X)
    print(f"{title}: {model.n_components_} components found")
    scores = model.transform(X)
    plain = PCA(2).fit_transform(SimpleImputer().fit_transform(X))
    for group in range(3):
        rows = labels == group
        axes[0, column].scatter(*plain[rows].T, s=16)
        axes[1, column].scatter(scores[rows, 0], np.flatnonzero(rows), s=16)
    axes[0, column].set(title=f"{title}\nPCA", xlabel="score 1", ylabel="score 2")
    axes[1, column].set(
        title=f"BayesianPCA: {model.n_components_} component",
        xlabel="score 1",
        ylabel="row of the table",
    )
plt.show()

# %%
# In grams, the first component of PCA is the noise of that one column, and the groups are gone.
# They stay visible if each column may have noise of its own, in any units and with holes.
#
# There is a price: where each column has noise of its own, only what columns have in common
# counts as a component. Four groups at the corners of a square would give two uncorrelated
# columns, in which this model finds no component; ``noise="isotropic"`` finds two.

"""
What does a change of units do to PCA?
======================================

Every lecture on PCA lists its limits: it depends on the units of measurement, outliers pull at
it, and it cannot deal with missing values. Are these limits of PCA, or of its noise model?

The data follow a classic of lectures (after Rogers and Girolami, *A First Course in Machine
Learning*): three groups of 20 points along a line, and further dimensions of pure noise. Then we
give one of the noise dimensions in grams instead of kilograms, and remove a tenth of the cells.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer

from bayespca import BayesianPCA

rng = np.random.default_rng(0)
labels = np.repeat(np.arange(3), 20)
centres = np.array([-3, 0, 3])[labels]
Y = np.column_stack([centres[:, None] + rng.normal(size=(60, 4)), rng.normal(size=(60, 4))])
grams = Y * [1, 1, 1, 1, 1, 1, 1, 1000]
holes = grams.copy()
holes[rng.random(holes.shape) < 0.1] = np.nan

# %%
# Above, the first two components of plain PCA, with holes filled by column means. Below, the
# model of this package, which finds its number of components and the noise of each column.

fig, axes = plt.subplots(2, 3, figsize=(9.5, 6), layout="constrained")
tables = {"as in the lecture": Y, "one column in grams": grams, "and 10 % missing": holes}
for column, (title, X) in enumerate(tables.items()):
    model = BayesianPCA().fit(X)
    print(f"{title}: {model.n_components_} found, noise {model.noise_!r}")
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
# In grams, the first component of PCA is the noise of that one column, and the groups have
# slipped to the second. With noise of each column there is one component, it is that of the
# groups, and neither units nor holes change it.
#
# There is a price: where each column has noise of its own, only what several columns have in
# common counts as a component. The lecture has the groups in two columns. That is too few: the
# single correlation of two columns does not show which part of them is common and which is noise.
# Here they are in four.

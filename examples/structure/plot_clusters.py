"""
Is one PCA enough, or are there several?
========================================

Data may lie on several planes instead of one: kinds of objects that each vary in their own
directions. How many kinds are there, and how many dimensions does each of them have?

:class:`~bayespca.PCAMixture` fits clusters with a PCA in each. The number of clusters and the
rank of each cluster are found together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from bayespca import BayesianPCA, PCAMixture

rng = np.random.default_rng(4)


def cloud(n, centre, *directions):
    """A cluster around a centre that varies along the given directions."""
    along = rng.normal(size=(n, len(directions))) @ np.array(directions).reshape(-1, 5)
    return np.array(centre) + along + 0.25 * rng.normal(size=(n, 5))


X = np.vstack(
    [
        cloud(250, [0, 0, 0, 0, 0], [2.5, 1.2, 0, 0, 0]),
        cloud(200, [1, 4, 1, 0, 0], [1.8, -0.9, 0, 0, 0], [0, 0, 1.5, 1.5, 0]),
        cloud(100, [5, 4, -1, 0, 1]),
    ]
)
truth = np.repeat([0, 1, 2], [250, 200, 100])

# %%
# Three clusters in five dimensions: a line, a plane, and a ball that has no direction at all.

model = PCAMixture(random_state=0).fit(X)
found = model.predict(X)
print("clusters:", model.n_components_, " their ranks:", *model.ranks_)
print(f"agreement with the truth (adjusted Rand index): {adjusted_rand_score(truth, found):.2f}")
print("one PCA for all:", BayesianPCA().fit(X).n_components_, "components")

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), sharex=True, layout="constrained")
for k in range(model.n_components_):
    rows = X[found == k]
    left.scatter(rows[:, 0], rows[:, 1], s=10, label=f"rank {model.ranks_[k]}")
    right.scatter(rows[:, 0], rows[:, 2], s=10)
left.set(xlabel="column 1", ylabel="column 2", title="Clusters, each with a PCA of its own")
left.legend(frameon=False)
right.set(xlabel="column 1", ylabel="column 3", title="The same from another side")
plt.show()

# %%
# K-means, which knows only distances, cuts long clusters into pieces. A cluster with its own
# directions may be as long as it likes:

round_clusters = KMeans(3, n_init=10, random_state=0).fit_predict(X)
print(f"adjusted Rand index of k-means: {adjusted_rand_score(truth, round_clusters):.2f}")

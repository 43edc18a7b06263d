"""
What if the table does not fit into memory?
===========================================

A table of 200,000 rows is stored in pieces, perhaps on several machines. Does the fit change, and
what comes back from ``transform``?

:class:`~bayespca.BayesianPCA` takes Dask arrays and DataFrames. It makes one pass over the
pieces, wherever they are, and brings back only a matrix as large as the columns. Everything that
has as many rows as the data stays lazy.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA

loadings = np.random.default_rng(0).normal(size=(3, 30))


def piece(seed):
    """20,000 rows that exist only while somebody looks at them: three groups in a plane."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 3, size=20_000)
    scores = np.array([[0, 0, 0], [4, 0, 0], [0, 3, 0]])[corner] + rng.normal(size=(20_000, 3))
    return scores @ loadings + rng.normal(size=(20_000, 30))


pieces = [da.from_delayed(dask.delayed(piece)(seed), (20_000, 30), float) for seed in range(10)]
X = da.concatenate(pieces)
print(X.shape, "in", X.npartitions, "pieces,", round(X.nbytes / 1e6), "MB in all")

# %%
# ``dask.distributed.Client`` would send the same call to a cluster.

model = BayesianPCA(noise="isotropic").fit(X)
scores = model.transform(X)
print("components:", model.n_components_, " scores:", type(scores).__name__, scores.shape)

# %%
# The scores are computed piece by piece, here for a histogram. The rows are never in memory all
# at once; their scores are.

first, second = scores[:, 0].compute(), scores[:, 1].compute()
fig, ax = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
shown = ax.hexbin(first, second, gridsize=70, cmap="viridis", mincnt=1)
fig.colorbar(shown, ax=ax, label="rows")
ax.set(xlabel="score 1", ylabel="score 2", title="200,000 rows, three groups")
plt.show()

# %%
# A piece in memory gives the same directions, as far as 20,000 rows can show:

one = BayesianPCA(noise="isotropic").fit(piece(0))
cosines = np.linalg.svd(one.components_ @ model.components_.T, compute_uv=False)
print("cosines of the angles between both subspaces:", cosines.round(5))

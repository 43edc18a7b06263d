"""
Which measurements belong together?
===================================

Principal components mix everything with everything, which makes them hard to name. Can they be
turned into factors with few large loadings, and which of those loadings differ from zero?

:func:`~bayespca.rotate` turns the components of a fitted model by varimax. The subspace, the
scores as a whole and all predictions stay the same, and every rotated loading comes with a
standard deviation.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from bayespca import BayesianPCA, rotate

wine = load_wine(as_frame=True)
model = BayesianPCA(scale=True).fit(wine.data)
factors = rotate(model, "varimax")
print(model.n_components_, "components of", wine.data.shape[1], "measurements")

# %%
# Loadings before the rotation (left) and after it (right), with the standard deviations of the
# rotated ones as bars. Loadings whose 95 % interval does not contain zero are coloured.

names = [
    name.replace("_", " ").replace("od280/od315 of diluted wines", "OD280/OD315")
    for name in wine.data
]
before = model.components_ * np.sqrt(model.explained_variance_)[:, None]
k = len(factors.loadings)
fig, axes = plt.subplots(1, k + 1, figsize=(11, 4.6), sharey=True, layout="constrained")
limit = np.abs(before).max()
image = axes[0].imshow(before.T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
axes[0].set_xticks(range(k), [f"{h + 1}" for h in range(k)])
axes[0].set(title="before", xlabel="component")
axes[0].set_yticks(range(len(names)), names)
places = np.arange(len(names))
for h, ax in enumerate(axes[1:]):
    loading, std = factors.loadings[h], factors.std[h]
    clear = np.abs(loading) > 1.96 * std
    ax.barh(places, loading, color=np.where(clear, "C0", "0.8"), xerr=1.96 * std, ecolor="0.4")
    ax.axvline(0, color="0.3", linewidth=0.8)
    ax.set(title=f"factor {h + 1}", xlabel="loading")
axes[0].set_ylim(len(names) - 0.5, -0.5)
fig.suptitle("Wine: principal components, and the same turned by varimax")
plt.show()

# %%
# The factors can be named: phenols (1), body (2: proline, alcohol, colour), hue against colour
# intensity (3), and ash (4). A grey bar means that the data do not say which sign the loading
# has.
for h in range(k):
    largest = np.argsort(-np.abs(factors.loadings[h]))[:3]
    print(
        f"factor {h + 1}:", ", ".join(f"{names[j]} {factors.loadings[h, j]:+.2f}" for j in largest)
    )

"""
Can a few bad rows ruin a PCA?
==============================

Six of a hundred samples were mislabelled, spilled or measured on the wrong day. Do they pull the
components towards themselves, and can the model find them?

A squared error makes a row that is ten times as far away count a hundred times. With
``noise="per-sample"`` each row has its own noise variance (Student's t), and a row that does not
fit loses its weight.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from bayespca import BayesianPCA

rng = np.random.default_rng(3)
n, p = 100, 8
direction = np.array([1, 0.5, 0.2, 0, 0, -0.2, 0, 0.1])
direction /= np.linalg.norm(direction)
X = 3 * rng.normal(size=(n, 1)) * direction + 0.7 * rng.normal(size=(n, p))
bad = np.arange(6)
X[bad] = rng.normal(loc=[-3, 11, 0, 0, 0, 0, 0, 0], scale=3, size=(6, p))

# %%
# One direction carries the signal. Six rows lie far off it.

plain = PCA(1).fit(X)
robust = BayesianPCA(noise="per-sample").fit(X)
print("components found:", robust.n_components_)


def angle(found):
    return np.degrees(np.arccos(min(1.0, abs(found @ direction))))


print(f"angle to the truth: plain PCA {angle(plain.components_[0]):.0f}°", end="; ")
print(f"robust {angle(robust.components_[0]):.0f}°")
print("most probable outliers:", np.sort(np.argsort(-robust.outlier_probability_)[:6]))

# %%
# The picture shows the first two of the eight columns.

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
points = left.scatter(
    X[:, 0], X[:, 1], c=robust.outlier_probability_, cmap="coolwarm", s=22, vmin=0, vmax=1
)
fig.colorbar(points, ax=left, label="probability of being an outlier")
along = np.array([-9, 9])
for axis, colour, name in [
    (plain.components_[0], "C1", "PCA"),
    (robust.components_[0], "C0", "noise by sample"),
]:
    slope = axis[:2] / np.linalg.norm(axis[:2]) * np.sign(axis[0])
    left.plot(*(along[:, None] * slope + np.median(X[:, :2], axis=0)).T, color=colour, label=name)
left.set(
    xlabel="column 1", ylabel="column 2", title="Six rows turn the first component", ylim=(-6, 17)
)
left.legend(frameon=False, loc="upper right")
right.semilogy(
    np.arange(n)[6:], robust.sample_noise_variance_[6:], ".", color="0.5", label="good rows"
)
right.semilogy(bad, robust.sample_noise_variance_[:6], "o", color="C3", label="bad rows")
right.set(
    xlabel="row", ylabel="noise variance of the row", title="What the model learned of each row"
)
right.legend(frameon=False)
plt.show()

# %%
# Nothing was removed by hand: the bad rows are still in the data, with the weight that they
# deserve. For single wrong cells instead of whole rows there is ``noise="student-cells"``.

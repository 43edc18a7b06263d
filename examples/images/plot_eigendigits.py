"""
What are the eigenfaces of handwriting?
=======================================

Turk and Pentland showed faces as sums of a few "eigenfaces". What do those of handwritten digits
look like, how many are there, and how sure is each pixel?

Each image of 8 × 8 pixels is a row of 64 numbers. The components of
:class:`~bayespca.BayesianPCA` are images again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bayespca import BayesianPCA

digits = load_digits()
X = digits.data[digits.target == 8]
model = BayesianPCA().fit(X)
print(f"{len(X)} images of the digit 8: {model.n_components_} components, noise {model.noise_!r}")

# %%
# The mean, and the first five components. Pixels of the same colour grow darker together; red and
# blue ones go opposite ways. Below, the standard deviation of each pixel of the component: dark
# pixels are known well.

fig, axes = plt.subplots(3, 6, figsize=(9.5, 5), layout="constrained")
axes[0, 0].imshow(X.mean(axis=0).reshape(8, 8), cmap="gray_r")
axes[0, 0].set_title("mean")
axes[1, 0].axis("off")
limit = np.abs(model.components_[:5]).max()
for h in range(5):
    axes[0, h + 1].imshow(
        model.components_[h].reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    axes[0, h + 1].set_title(f"component {h + 1}", fontsize=10)
    axes[1, h + 1].imshow(
        model.components_std_[h].reshape(8, 8), cmap="gray", vmin=0, vmax=limit / 2
    )
axes[1, 1].set_ylabel("SD")

# One image, put together again from more and more components.
row = X[7]
parts = [0, 1, 2, 4, model.n_components_]
scores = model.transform(row[None])
axes[2, 0].imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
axes[2, 0].set_title("an image", fontsize=10)
for ax, k in zip(axes[2, 1:], parts, strict=True):
    image = model.mean_ + scores[0, :k] @ model.components_[:k]
    ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    ax.set_title(f"from {k}", fontsize=10)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# The last row shows one image and what is left of it: the mean, then one, two, four and all
# components. What is still missing at the end is noise, by the model's own judgement.

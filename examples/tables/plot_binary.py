"""
What structure is there in yes and no?
======================================

A table of zeros and ones has no noise that one could subtract. What do its main directions look
like, and can they fill in answers that were not given?

:class:`~bayespca.BinaryPCA` models the probability of a one: its logarithmic odds are of low
rank. We use handwritten digits with pixels either on or off, and hide a fifth of the pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bayespca import BinaryPCA

digits = load_digits()
chosen = np.isin(digits.target, [0, 3, 4, 7])
on = (digits.data[chosen] > 7).astype(float)[:300]
labels = digits.target[chosen][:300]
rng = np.random.default_rng(0)
hidden = rng.random(on.shape) < 0.2
shown = np.where(hidden, np.nan, on)

# %%
# Holes are part of the model. The number of components is found.

model = BinaryPCA(random_state=0).fit(shown)
filled = model.impute(shown)
print("components:", model.n_components_)
p = np.clip(filled[hidden], 1e-6, 1 - 1e-6)
rate = np.clip(np.broadcast_to(np.nanmean(shown, axis=0), on.shape)[hidden], 1e-3, 1 - 1e-3)
print(f"hidden pixels guessed right: {np.mean((p > 0.5) == on[hidden]):.1%}")
print(f"by how often each pixel is on: {np.mean((rate > 0.5) == on[hidden]):.1%}")

# %%
# The first two scores separate the four digits, although the model has never seen the labels. On
# the right, four digits: what was seen (grey pixels are hidden) and the probability of each
# pixel.

scores = model.transform(shown)
fig = plt.figure(figsize=(9.5, 4), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1.1, 1])
ax = left.subplots()
for digit in (0, 3, 4, 7):
    ax.scatter(*scores[labels == digit, :2].T, s=14, label=str(digit))
ax.set(xlabel="score 1", ylabel="score 2", title="Digits as zeros and ones")
ax.legend(title="digit", frameon=False)
panels = right.subplots(2, 4)
for column, digit in enumerate((0, 3, 4, 7)):
    row = np.flatnonzero(labels == digit)[1]
    grey = np.where(np.isnan(shown[row]), 0.5, shown[row])
    for ax, image in zip(panels[:, column], (grey, filled[row]), strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
panels[0, 0].set_ylabel("seen")
panels[1, 0].set_ylabel("probability")
plt.show()

# %%
# Hidden pixels become probabilities: sure inside the strokes, grey at their edges.

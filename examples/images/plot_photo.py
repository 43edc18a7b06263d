"""
Can PCA clean a noisy photograph?
=================================

One photograph is not a table. But the small patches of a neighbourhood are: hundreds of rows that
look alike, because edges and surfaces repeat. How much noise can be removed this way?

In each window of 24 × 24 pixels we cut out all overlapping patches of 7 × 7, take the noise out
of them, and average what overlaps. :func:`~bayespca.evbmf`, which is the closed form of
:class:`~bayespca.BayesianPCA` in one function, finds the number of components of each window: few
in the sky, many on the roof.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from bayespca import evbmf

SIDE, WINDOW, STEP = 7, 24, 8
photo = load_sample_image("china.jpg").mean(axis=2)[60:212, 180:396] / 255
rng = np.random.default_rng(0)
noisy = photo + 0.1 * rng.normal(size=photo.shape)

# %%
# Neighbouring patches overlap and share their noise. So the rows of the table are not
# independent, and a model that learned the noise would be misled. We take it as known instead,
# say from the camera: a standard deviation of 0.1.

total, weight, rank = np.zeros(photo.shape), np.zeros(photo.shape), np.zeros(photo.shape)
for i in range(0, photo.shape[0] - WINDOW + 1, STEP):
    for j in range(0, photo.shape[1] - WINDOW + 1, STEP):
        window = (slice(i, i + WINDOW), slice(j, j + WINDOW))
        patches = extract_patches_2d(noisy[window], (SIDE, SIDE)).reshape(-1, SIDE**2)
        mean = patches.mean(axis=0)
        U, S, V, _ = evbmf(patches - mean, sigma2=0.1**2)
        cleaned = (mean + U @ S @ V.T).reshape(-1, SIDE, SIDE)
        total[window] += reconstruct_from_patches_2d(cleaned, (WINDOW, WINDOW))
        weight[window] += 1
        rank[window] += len(S)
clean, rank = total / weight, rank / weight


def psnr(image):
    return -10 * np.log10(np.mean((image - photo) ** 2))


print(f"PSNR: noisy {psnr(noisy):.1f} dB, cleaned {psnr(clean):.1f} dB")

# %%

fig, axes = plt.subplots(2, 2, figsize=(8.5, 6.2), layout="constrained")
for ax, image, title in zip(
    axes.flat,
    (noisy, clean, photo),
    (f"noisy, {psnr(noisy):.1f} dB", f"cleaned, {psnr(clean):.1f} dB", "the original"),
    strict=False,
):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
shown = axes[1, 1].imshow(rank, cmap="viridis")
axes[1, 1].set(title="components found", xticks=[], yticks=[])
fig.colorbar(shown, ax=axes[1, 1], shrink=0.8)
plt.show()

# %%
# The map of ranks is itself a picture: the sky needs hardly any components, the roof many.

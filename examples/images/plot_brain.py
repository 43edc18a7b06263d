"""
How much of this brain scan is noise?
=====================================

Diffusion MRI takes the same brain dozens of times, each time with a weak and noisy signal. Can
the noise be removed without blurring the anatomy?

Neighbouring voxels share a few signal shapes over the volumes, but not their noise.
:func:`bayespca.imaging.denoise` cuts the series into small patches, finds the rank and the noise
of each, and shrinks its singular values. We simulate a head with three tissues and 40 volumes, so
we know the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca.imaging import denoise

rng = np.random.default_rng(0)
x, y, z = np.meshgrid(
    np.linspace(-1, 1, 32), np.linspace(-1, 1, 32), [0, 0.1, 0.2, 0.3, 0.4], indexing="ij"
)
radius = np.sqrt((x / 0.85) ** 2 + (y / 0.95) ** 2 + z**2)
folds = 0.08 * np.sin(9 * np.arctan2(y, x)) + radius
tissue = np.zeros(x.shape, int)
tissue[radius < 0.95] = 1
tissue[folds < 0.8] = 2
tissue[(np.abs(x) < 0.25) & (np.abs(y) < 0.35) & (folds < 0.8)] = 3

# %%
# Each tissue has a signal of its own over the 40 volumes. In one tissue it depends on the
# direction of fibres, which changes from place to place.

gradients = rng.normal(size=(40, 3))
gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
decay = np.array([0, 0.4, 1.0, 2.0])
brightness = np.array([0, 140, 100, 180])
turn = 4 * x + 3 * y
fibre = np.stack([np.cos(turn), np.sin(turn), 0 * x], axis=-1)
along = (fibre @ gradients.T) ** 2
signal = brightness[tissue][..., None] * np.exp(
    -decay[tissue][..., None] * (0.6 + 0.6 * along * (tissue == 2)[..., None])
)
data = signal + 12 * rng.normal(size=signal.shape)
head = tissue > 0

found = denoise(data, mask=head)
before = np.sqrt(np.mean((data - signal)[head] ** 2))
after = np.sqrt(np.mean((found.values - signal)[head] ** 2))
print(f"error: {before:.1f} before, {after:.1f} after")
print(f"noise: true SD 12, found {np.median(found.noise_std[head]):.2f}")

# %%
# If only noise was removed, the residual shows no anatomy.

fig, axes = plt.subplots(2, 3, figsize=(8.5, 5.8), layout="constrained")
v, k = 3, 2
residual = np.where(head, data[..., v] - found.values[..., v], 0)
for ax, image, title, limits in [
    (axes[0, 0], data[:, :, k, v], "measured", (0, 130)),
    (axes[0, 1], found.values[:, :, k, v], "denoised", (0, 130)),
    (axes[0, 2], signal[:, :, k, v], "the truth", (0, 130)),
    (axes[1, 0], residual[:, :, k], "what was removed", (-36, 36)),
]:
    ax.imshow(image.T, cmap="gray", vmin=limits[0], vmax=limits[1], origin="lower")
    ax.set_title(title)
for ax, image, title, limits in [
    (axes[1, 1], found.rank, "mean rank of the patches", (0, 3)),
    (axes[1, 2], found.noise_std, "noise SD found (truth: 12)", (10, 14)),
]:
    shown = ax.imshow(
        np.where(head, image, np.nan)[:, :, k].T, vmin=limits[0], vmax=limits[1], origin="lower"
    )
    ax.set_title(title, fontsize=11)
    fig.colorbar(shown, ax=ax, shrink=0.8)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# The residual has no trace of the tissues, and the map of the noise is flat, as it should be.
# Where one tissue fills the whole patch, no component is needed beside the mean.

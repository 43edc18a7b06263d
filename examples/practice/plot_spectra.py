"""
How many substances are in these spectra?
=========================================

A spectrometer measures 80 mixtures at 150 wavelengths. Its errors are smooth: if one channel
reads too high, so do its neighbours. How many substances are in the mixtures, if errors look like
spectra themselves?

White noise is the usual assumption, and every smooth error counts as a substance under it. With
``noise="autoregressive"`` neighbouring columns may err together.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA, denoise

rng = np.random.default_rng(0)
wavelength = np.linspace(900, 1700, 150)
peaks = [(1000, 40), (1150, 60), (1250, 30), (1450, 70)]
pure = np.array([np.exp(-0.5 * ((wavelength - c) / w) ** 2) for c, w in peaks])
amounts = rng.dirichlet(np.ones(4), size=80)
error = rng.normal(size=(80, 150))
for j in range(1, 150):
    error[:, j] = 0.85 * error[:, j - 1] + np.sqrt(1 - 0.85**2) * error[:, j]
X = amounts @ pure + 0.05 * error

# %%
# Four substances whose amounts sum to one vary in three directions: one amount follows from the
# others.

white = BayesianPCA(noise="isotropic").fit(X)
chosen = BayesianPCA().fit(X)
print("white noise:   ", white.n_components_, "components")
print("chosen noise:  ", chosen.n_components_, "components,", chosen.noise_)

# %%
# :func:`~bayespca.denoise` fits and removes the noise in one call. What is left of one spectrum
# when the noise is gone? Under white noise, the errors that were taken for substances stay in it.

truth = amounts @ pure
shown = 22
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
axes[0].plot(wavelength, X[:12].T, linewidth=0.7)
axes[0].set(title="Twelve of the spectra", ylabel="absorbance")
for ax, model, name in [
    (axes[1], white, "White noise"),
    (axes[2], chosen, "Neighbours err together"),
]:
    clean = denoise(X, noise=model.noise_)
    ax.plot(wavelength, X[shown], color="0.8", label="measured")
    ax.plot(wavelength, truth[shown], color="k", linewidth=2.5, label="true")
    ax.plot(wavelength, clean[shown], color="C1", label="denoised")
    ax.set_title(f"{name}: {model.n_components_} components")
    print(f"{name}: error of the denoised spectra {np.sqrt(np.mean((clean - truth) ** 2)):.4f}")
for ax in axes:
    ax.set_xlabel("wavelength (nm)")
axes[1].legend(frameon=False)
plt.show()

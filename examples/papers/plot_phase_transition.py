"""
Where does a component disappear in the noise?
==============================================

Nakajima and Sugiyama (AISTATS 2014) compare three empirical Bayes methods, which learn their
prior: EVB, EPB and EMAP. Which of them finds weak components, and which of them mistakes noise
for one?

Random matrix theory says what is possible at best: singular values of pure noise end at the
Marchenko–Pastur edge, and a component below a certain strength leaves no trace. We put one
component of growing strength into noise and count how often each method keeps exactly one.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import spectrum

L, M = 60, 180
rng = np.random.default_rng(0)
limit = np.sqrt(np.sqrt(L * M))
strengths = np.linspace(0, 2.2, 12)
METHODS = {"evb": ("EVB", "C0"), "epb": ("EPB (local)", "C1"), "emap": ("EMAP (local)", "C2")}

# %%
# The strength is in units of the detection limit :math:`\sigma (LM)^{1/4}`. Thirty matrices for
# each strength; all methods know the noise variance.

right = {method: np.zeros(len(strengths)) for method in METHODS}
mean_rank = {method: np.zeros(len(strengths)) for method in METHODS}
for i, strength in enumerate(strengths):
    for _ in range(30):
        u, v = rng.normal(size=L), rng.normal(size=M)
        signal = strength * limit * np.outer(u / np.linalg.norm(u), v / np.linalg.norm(v))
        gamma = np.linalg.svd(signal + rng.normal(size=(L, M)), compute_uv=False)
        matrix = spectrum.Spectrum(gamma, shape=(L, M))
        for method in METHODS:
            found = spectrum.solve(matrix, method, noise_variance=1.0).rank
            right[method][i] += (found == 1) / 30
            mean_rank[method][i] += found / 30

# %%

fig, (left, middle) = plt.subplots(1, 2, figsize=(9.5, 4), sharex=True, layout="constrained")
for method, (name, colour) in METHODS.items():
    left.plot(strengths, 100 * right[method], "o-", color=colour, label=name, markersize=4)
    middle.plot(strengths, mean_rank[method], "o-", color=colour, markersize=4)
for ax in (left, middle):
    ax.axvline(1, color="0.5", linestyle=":", linewidth=1)
    ax.set_xlabel("strength of the component, in detection limits")
left.set(ylabel="exactly one component kept, in %", title="One component in noise")
middle.legend(
    *left.get_legend_handles_labels(), frameon=False, loc="center left", bbox_to_anchor=(0, 0.37)
)
left.text(0.97, 80, "detection\nlimit", color="0.4", fontsize=8, ha="right")
middle.set(ylabel="mean number of components", title="Who counts noise?", ylim=(-0.1, 3.2))
plt.show()

# %%
# EVB and EMAP find nothing below the limit, and the component soon above it: a phase transition.
# The local solution of EPB has a threshold inside the noise, and keeps about two directions of
# it, whatever the strength.

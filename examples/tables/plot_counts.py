"""
Do counts need a model of counts?
=================================

Counts of words, species or photons are often analysed by PCA of their logarithms. What does that
do when most counts are small?

The noise of a count grows with its mean, and the logarithm of zero does not exist. We simulate
200 places with counts of 40 species that depend on two gradients, say moisture and height, and
compare the logarithm with :class:`~bayespca.GeneralizedPCA`, whose likelihood is Poisson's.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA, GeneralizedPCA

rng = np.random.default_rng(0)
moisture, height = rng.uniform(-1.5, 1.5, size=(2, 200))
preference = rng.normal(size=(2, 40))
rates = np.exp(np.column_stack([moisture, height]) @ preference + rng.normal(-0.7, 0.7, size=40))
counts = rng.poisson(rates)
print(f"{np.mean(counts == 0):.0%} of the counts are 0, the largest is {counts.max()}")

# %%
# Both models find their own number of components.

of_counts = GeneralizedPCA(likelihood="poisson", random_state=0).fit(counts)
of_logs = BayesianPCA().fit(np.log1p(counts))
print("components, counts:", of_counts.n_components_, " logarithms:", of_logs.n_components_)

# %%
# How well do two scores recover the gradients? Linear regression on them gives the share of
# variance that they explain.


def recovered(scores, gradient):
    A = np.column_stack([np.ones(len(scores)), scores])
    fitted = A @ np.linalg.lstsq(A, gradient, rcond=None)[0]
    return fitted, np.corrcoef(fitted, gradient)[0, 1] ** 2


fig, axes = plt.subplots(2, 2, figsize=(7.5, 6.4), sharex=True, sharey=True, layout="constrained")
for row, (name, scores) in zip(
    axes,
    {
        "Poisson counts": of_counts.transform(counts)[:, :2],
        "PCA of log(1 + count)": of_logs.transform(np.log1p(counts))[:, :2],
    }.items(),
    strict=True,
):
    for ax, gradient, what in zip(row, (moisture, height), ("moisture", "height"), strict=True):
        fitted, share = recovered(scores, gradient)
        ax.plot(gradient, fitted, ".", color="C0" if "Poisson" in name else "C1", markersize=4)
        ax.plot([-1.5, 1.5], [-1.5, 1.5], color="0.6", linewidth=1)
        ax.set_title(f"{name}: R² = {share:.3f}", fontsize=10)
        ax.set(xlabel=f"true {what}", ylabel="from two scores")
plt.show()

# %%
# The logarithm finds four components where there are two: where counts are small, log(1 + count)
# is not linear in the gradients, and the bend takes components of its own. The model of counts
# needs no logarithm.

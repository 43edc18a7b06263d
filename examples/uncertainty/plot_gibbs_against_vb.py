"""
Can we trust the closed form's error bars?
==========================================

Variational Bayes answers in milliseconds because it treats scores and loadings as independent.
Sampling makes no such assumption, but takes seconds to minutes. Where do the two agree, and where
do they differ?

We use the example of Bishop's paper: 100 points in ten dimensions, four of which have standard
deviations of 5, 4, 3 and 2, the others 1. :class:`~bayespca.GibbsPCA` draws from the exact
posterior; :class:`~bayespca.BayesianPCA` is the closed form.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA, GibbsPCA
from bayespca.spectrum import posterior_of_rank

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 10)) * [5, 4, 3, 2, 1, 1, 1, 1, 1, 1]

closed = BayesianPCA(noise="isotropic").fit(X)
exact = GibbsPCA(random_state=0).fit(X)
print(
    "closed form:",
    closed.n_components_,
    "components, noise variance",
    round(closed.noise_variance_, 3),
)
print(
    "sampling:   ",
    exact.n_components_,
    "components, noise variance",
    f"{exact.noise_variance_:.3f} ± {exact.noise_variance_std_:.3f}",
)

# %%
# We compare the probability of each rank, and the standard deviation of every loading and score.
# The components are single columns, which columns with noise of their own explain as well, so the
# closed form announces no probability of its own; we compute the one for equal noise.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained")
k = np.arange(8)
for found, shift, colour, name in [
    (posterior_of_rank(closed.spectrum_).probabilities[:8], -0.2, "C0", "closed form"),
    (exact.rank_posterior_[:8], 0.2, "C1", "sampling"),
]:
    probability = np.zeros(8)
    probability[: len(found)] = found
    left.bar(k + shift, probability, 0.4, color=colour, label=name)
left.set(xlabel="number of components", ylabel="probability", title="Rank")
left.legend(frameon=False)

r = min(closed.n_components_, exact.n_components_)
_, score_std = closed.transform(X, return_std=True)
score_std = np.broadcast_to(score_std, (100, closed.n_components_))
_, exact_score_std = exact.transform(X, return_std=True)
for ax, ours, theirs, title in [
    (middle, closed.components_std_[:r], exact.components_std_[:r], "SD of the loadings"),
    (right, score_std[:, :r], exact_score_std[:, :r], "SD of the scores"),
]:
    top = 1.1 * max(ours.max(), theirs.max())
    low = 0.9 * min(ours.min(), theirs.min())
    ax.plot([low, top], [low, top], color="0.6", linewidth=1)
    for h in range(r):
        one, other = (
            (ours[h], theirs[h]) if title.endswith("loadings") else (ours[:, h], theirs[:, h])
        )
        ax.plot(one, other, ".", label=f"component {h + 1}")
    ax.set(xlabel="closed form", ylabel="sampling", title=title)
middle.legend(frameon=False, fontsize=8)
plt.show()

# %%
# Both choose four components. Their probabilities differ because they count different things: the
# closed form counts everything above the detection limit, the sampler only what EVB would keep.
#
# Points on the line are standard deviations on which both agree. Those of loadings include the
# uncertainty of the rotation, which the variational posterior itself cannot express and the
# package adds: components of similar variance can turn into each other.

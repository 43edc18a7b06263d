"""
How sure is the number of components?
=====================================

A scree plot suggests a number of components, but not how much to trust it. How probable is each
number, and does the probability mean what it says?

``BayesianPCA.rank_posterior_`` is the posterior probability of 0, 1, 2, … components, with
directions, strengths and noise integrated out. We simulate tables with three components that
differ only in how strong the third one is.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA

rng = np.random.default_rng(0)
n, p = 100, 20


def table(variances):
    """Components of these variances in random directions, and noise of variance 1."""
    k = len(variances)
    directions = np.linalg.qr(rng.normal(size=(p, p)))[0][:k]
    return (rng.normal(size=(n, k)) * np.sqrt(variances)) @ directions + rng.normal(size=(n, p))


# %%
# The variance of a component, in units of the noise variance, has to exceed :math:`\sqrt{p/n}` to
# leave any trace in the data, however clever the method. That is the detection limit. The third
# component varies from half of it to eight times it, in 15 tables for each strength.

limit = np.sqrt(p / n)
strengths = np.array([0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6.5, 8])
posterior = np.zeros((len(strengths), 3))
kept = np.zeros(len(strengths))
for i, strength in enumerate(strengths):
    for _ in range(15):
        model = BayesianPCA(noise="isotropic").fit(table([10, 5, strength * limit]))
        kept[i] += (model.n_components_ == 3) / 15
        found = model.rank_posterior_
        if found is None:
            continue
        posterior[i] += [found[:3].sum(), found[3], found[4:].sum()]
    posterior[i] /= posterior[i].sum()

# %%
# Does a probability of 70 % mean right in 70 % of cases? We draw 200 more tables, each with zero
# to three components of random strength, and compare what is announced with how often it is true.

announced, right = [], []
for _ in range(200):
    variances = limit * rng.uniform(0, 8, size=rng.integers(0, 4))
    found = BayesianPCA(noise="isotropic").fit(table(variances)).rank_posterior_
    if found is None:  # the residuals look, by chance, as if noise were not equal
        continue
    announced.append(found.max())
    right.append(np.argmax(found) == (variances > limit).sum())
announced, right = np.array(announced), np.array(right)
print(f"announced {announced.mean():.2f} on average, right in {right.mean():.2f} of the cases")

# %%

fig, (left, middle) = plt.subplots(
    1, 2, figsize=(9.5, 4), layout="constrained", width_ratios=[3, 2]
)
left.stackplot(
    strengths, posterior.T, labels=["2 or fewer", "3", "4 or more"], colors=["0.85", "C0", "0.65"]
)
left.plot(strengths, kept, "k.--", label="share of tables in which 3 are kept")
left.set(
    xlabel="variance of the third component, in detection limits",
    ylabel="posterior probability (mean)",
    title="Three components, the third ever stronger",
    xlim=(0.5, 8),
    ylim=(0, 1),
)
left.legend(loc="lower right")

edges = np.quantile(announced, [0, 0.25, 0.5, 0.75, 1])
group = np.clip(np.searchsorted(edges, announced, side="right") - 1, 0, 3)
x = [announced[group == g].mean() for g in range(4)]
y = np.array([right[group == g].mean() for g in range(4)])
error = np.sqrt(y * (1 - y) / [np.sum(group == g) for g in range(4)])
middle.plot([0.3, 1], [0.3, 1], color="0.6", linewidth=1)
middle.errorbar(x, y, error, fmt="o", color="C0", capsize=3)
middle.set(
    xlabel="announced probability", ylabel="share of right answers", title="Is it calibrated?"
)
plt.show()

# %%
# A component near the limit cannot be distinguished from noise, and the probability says so: it
# is spread over two and three. The third is kept when the probability that there are so many
# reaches 90 %. Something just above the
# limit can never be ruled out, so even clean data end at about 0.7 for the right number.
#
# In this simulation the announced probabilities err on the side of caution: points above the
# diagonal are right more often than announced.

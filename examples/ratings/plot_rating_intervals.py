"""
How far off may a predicted rating be?
======================================

A recommender that says "4.2 stars" should also say "give or take one". Are its intervals right,
and does sampling give better ones than variational Bayes?

``MatrixFactorization("gibbs")`` averages predictions over draws from the posterior, starting from
the quick EVB fit. We compare the two on simulated ratings. Each person has given only a few.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import MatrixFactorization

rng = np.random.default_rng(1)
people, films = 200, 60
expected = (
    3.2
    + 0.6 * rng.normal(size=(people, 2)) @ rng.normal(size=(2, films))
    + 0.4 * rng.normal(size=films)
)
scores = expected + 0.6 * rng.normal(size=expected.shape)
users, items = np.nonzero(rng.random((people, films)) < 0.3)
ratings = scores[users, items]
test = rng.random(len(ratings)) < 0.25
train = ~test

# %%

models = {
    "EVB": MatrixFactorization(random_state=0),
    "Gibbs": MatrixFactorization("gibbs", n_chains=1, n_warmup=50, n_draws=150, random_state=0),
}
levels = np.linspace(0.1, 0.95, 12)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot([0, 100], [0, 100], color="0.6", linewidth=1)
for (name, model), colour in zip(models.items(), ("C1", "C0"), strict=True):
    model.fit_ratings(users[train], items[train], ratings[train])
    guess, std = model.predict(users[test], items[test], return_std=True)
    error = ratings[test] - guess
    half_width = np.quantile(np.abs(rng.normal(size=100_000)), levels)
    inside = [np.mean(np.abs(error) < width * std) for width in half_width]
    left.plot(100 * levels, 100 * np.array(inside), "o-", color=colour, label=name, markersize=4)
    print(f"{name:6s} RMSE {np.sqrt(np.mean(error**2)):.3f}, 95 % intervals hold {inside[-1]:.1%}")
    if name == "Gibbs":
        shown = np.argsort(std)[:: len(std) // 40][:40]
        right.errorbar(range(len(shown)), guess[shown], 1.96 * std[shown], fmt="none", ecolor="0.7")
        hit = np.abs(error[shown]) < 1.96 * std[shown]
        right.scatter(
            range(len(shown)), ratings[test][shown], c=np.where(hit, "C0", "C3"), s=14, zorder=3
        )
left.set(
    xlabel="nominal, in %",
    ylabel="held-out ratings inside, in %",
    title="Intervals against the truth",
)
left.legend(frameon=False)
right.set(
    xlabel="held-out ratings, surest first",
    ylabel="rating",
    title="95 % intervals (Gibbs), true ratings as dots",
)
plt.show()

# %%
# On the diagonal, an interval holds what it promises. Here both do, and their errors are nearly
# the same: on a small table without further features, the approximation of variational Bayes
# costs little. One chain is enough for a picture. The default is several, and R-hat shows whether
# they agree.

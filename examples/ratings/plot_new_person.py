"""
What do we recommend to somebody new?
=====================================

A visitor rates three films. What can be recommended right away, without fitting anything again,
and how does the list change with every further rating?

``MatrixFactorization.predict_new`` and ``recommend_new`` take the ratings of somebody who was not
in the fit. The films have names here, and two hidden dimensions of style: quiet or loud, and
light or dark.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import MatrixFactorization

rng = np.random.default_rng(2)
kinds = {
    "romance": (-1, 0.7),
    "comedy": (0.1, 1.2),
    "action": (1.2, 0.2),
    "horror": (0.8, -1.2),
    "drama": (-1, -0.7),
}
films = [f"{kind} {i + 1}" for kind in kinds for i in range(12)]
style = np.repeat(np.array(list(kinds.values())), 12, axis=0) + 0.25 * rng.normal(size=(60, 2))
taste = rng.normal(size=(300, 2))
scores = 3 + 0.8 * taste @ style.T + 0.4 * rng.normal(size=(300, 60))
users, items = np.nonzero(rng.random(scores.shape) < 0.3)
model = MatrixFactorization(random_state=0).fit_ratings(
    users, np.array(films)[items], np.clip(scores[users, items], 1, 5)
)
print("factors found:", model.n_components_)

# %%
# The newcomer loves two action films and dislikes a drama.

seen = ["action 1", "drama 3", "action 5"]
given = [5.0, 1.5, 4.5]
best, expected, std = model.recommend_new(seen, given, n=5, return_std=True)
for film, rating, sd in zip(best, expected, std, strict=True):
    print(f"{film:12s} {rating:.1f} ± {sd:.1f}")

# %%
# How do the predictions for each kind of film change as ratings come in?

fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
path, spread = [], []
for n in range(1, 4):
    rating, sd = model.predict_new(seen[:n], given[:n], films, return_std="mean")
    path.append(rating.reshape(5, 12).mean(axis=1))
    spread.append(sd.reshape(5, 12).mean(axis=1))
path, spread = np.array(path), np.array(spread)
for k, kind in enumerate(kinds):
    ax.errorbar(
        np.arange(3) + 0.06 * (k - 2), path[:, k], spread[:, k], fmt="o-", capsize=3, label=kind
    )
ax.set_xticks(range(3), ["action 1: 5 stars", "+ drama 3: 1½ stars", "+ action 5: 4½ stars"])
ax.set(ylabel="expected rating (± SD)", title="What three ratings say about a newcomer")
ax.legend(frameon=False, ncols=5, loc="lower left", fontsize=8)
ax.set_ylim(0.3, 5.4)
plt.show()

# %%
# One rating says little, and the bars are wide. The drama that was disliked makes the others
# narrower, although none of them has been rated: tastes have two dimensions, and two ratings
# begin to fix them.

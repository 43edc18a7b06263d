"""
What would you rate the films you have not seen?
================================================

A few hundred people have rated some of a hundred films. Which ratings would they give to the
others, and how many dimensions does taste have?

:class:`~bayespca.MatrixFactorization` finds the number of factors, the biases of people and
films, and the noise from the ratings themselves. No ratings come with
scikit-learn, so we simulate some: taste has two dimensions (say, action and romance), and popular
films are rated more often.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import MatrixFactorization

rng = np.random.default_rng(0)
people, films = 400, 100
taste, style = rng.normal(size=(people, 2)), rng.normal(size=(films, 2))
mood, quality = 0.3 * rng.normal(size=people), 0.4 * rng.normal(size=films)
expected = 3.4 + mood[:, None] + quality + 0.45 * taste @ style.T
stars = np.clip(np.rint(expected + 0.5 * rng.normal(size=expected.shape)), 1, 5)
popular = rng.beta(1, 4, size=films)
busy = rng.beta(1, 2, size=people)
users, items = np.nonzero(rng.random((people, films)) < 3 * busy[:, None] * popular)
ratings = stars[users, items]
test = rng.random(len(ratings)) < 0.2
train = ~test
print(f"{train.sum()} ratings to learn from, {train.sum() / people:.0f} for each person")

# %%

model = MatrixFactorization(random_state=0).fit_ratings(users[train], items[train], ratings[train])
print("factors:", model.n_components_, " noise variance:", round(model.noise_variance_, 2))

test &= model.known(users, items)
guess, std = model.predict(users[test], items[test], return_std=True)
mean_of_film = np.array(
    [
        ratings[train & (items == j)].mean() if (train & (items == j)).any() else 3.4
        for j in range(films)
    ]
)


def rmse(prediction):
    return np.sqrt(np.mean((prediction - ratings[test]) ** 2))


errors = {
    "mean of\nthe film": rmse(mean_of_film[items[test]]),
    "factors\nfound": rmse(guess),
    "the truth\nitself": rmse(np.clip(expected, 1, 5)[users[test], items[test]]),
}
for name, error in errors.items():
    print(f"{name.replace(chr(10), ' '):18s} {error:.3f}")

# %%
# On the left, the error of held-out ratings; no method can be better than the true expected
# rating. On the right, how sure the model is of a rating, by how many ratings the person has
# given: it knows what it does not know.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.bar(list(errors), list(errors.values()), color=["0.7", "C0", "0.3"])
left.set(ylabel="error of held-out ratings (RMSE, stars)", title="Held-out ratings")
given = np.bincount(users[train], minlength=people)[users[test]]
_, mean_std = model.predict(users[test], items[test], return_std="mean")
right.plot(given + rng.uniform(-0.3, 0.3, given.size), mean_std, ".", markersize=3, alpha=0.5)
right.set(
    xlabel="ratings that the person has given",
    ylabel="SD of the expected rating (stars)",
    title="Who rates more is known better",
)
plt.show()

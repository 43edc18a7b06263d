"""
What do holes do to a regression?
=================================

If we fill the holes of a table once and go on as if nothing had been missing, a regression is too
sure of itself. Dropping the incomplete rows throws most of the table away. How do we get honest
standard errors from all of the data?

Multiple imputation fills the holes several times, with draws instead of means. Each completed
table is analysed as usual, and Rubin's rules pool the results: the uncertainty within the tables
is added to the difference between them.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA

rng = np.random.default_rng(0)

# %%
# We simulate surveys in which the truth is known: eight questions and an outcome that depend on
# two traits. The regression coefficient of the outcome on the first question, given the second,
# follows from the covariance. 60 % of the people skipped the first question, and 10 % skipped each
# of the others.

loadings = np.array(
    [[1, 0.9, 0.8, 0.7, 0.2, 0.1, 0, 0, 0.8], [0, 0.3, 0, 0.2, 0.9, 0.8, 0.8, 0.7, 0.4]]
)
noise = 0.9
covariance = loadings.T @ loadings + noise**2 * np.eye(9)
truth = np.linalg.solve(covariance[:2, :2], covariance[:2, 8])[0]


def survey(n=150):
    complete = rng.normal(size=(n, 2)) @ loadings + noise * rng.normal(size=(n, 9))
    holes = complete.copy()
    holes[:, :8][rng.random((n, 8)) < [0.6] + [0.1] * 7] = np.nan
    return holes


def regression(rows):
    """Coefficient of the first question and its variance, by least squares."""
    A = np.column_stack([np.ones(len(rows)), rows[:, :2]])
    inverse = np.linalg.inv(A.T @ A)
    coefficients = inverse @ A.T @ rows[:, 8]
    residual = rows[:, 8] - A @ coefficients
    return coefficients[1], residual @ residual / (len(rows) - 3) * inverse[1, 1]


def pooled(draws):
    """Rubin's rules."""
    estimates, variances = np.array([regression(draw) for draw in draws]).T
    between = estimates.var(ddof=1)
    return estimates.mean(), variances.mean() + (1 + 1 / len(draws)) * between


# %%
# Forty surveys, three ways to deal with the holes. The outcome is part of the imputation model:
# without it, imputed answers would know nothing of the relation that we are after.

answers = {"complete rows only": [], "filled once, with means": [], "10 draws, Rubin's rules": []}
for _ in range(40):
    holes = survey()
    model = BayesianPCA(noise="isotropic").fit(holes)
    draws = model.sample_imputations(holes, 10, random_state=0)
    answers["complete rows only"].append(regression(holes[~np.isnan(holes).any(axis=1)]))
    answers["filled once, with means"].append(regression(model.impute(holes)))
    answers["10 draws, Rubin's rules"].append(pooled(draws))

# %%

fig, axes = plt.subplots(1, 3, figsize=(10, 4.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, answers.items(), strict=True):
    b, se = np.array(found).T
    se = np.sqrt(se)
    inside = np.abs(b - truth) < 1.96 * se
    order = np.argsort(b)
    for place, i in enumerate(order):
        colour = "C0" if inside[i] else "C3"
        ax.plot(
            [b[i] - 1.96 * se[i], b[i] + 1.96 * se[i]], [place, place], color=colour, linewidth=1.5
        )
        ax.plot(b[i], place, ".", color=colour, markersize=4)
    ax.axvline(truth, color="k", linewidth=1)
    ax.set(title=f"{name}\n{inside.mean():.0%} hold the truth", xlabel="coefficient, 95 % interval")
    print(f"{name:26s} error {np.sqrt(np.mean((b - truth) ** 2)):.3f}, mean SE {se.mean():.3f}")
axes[0].set_ylabel("survey")
axes[0].set_xlim(truth - 0.8, truth + 0.8)
plt.show()

# %%
# A fifth of the rows is complete, so the first way has wide intervals. Filling with means makes
# relations look too clean: the estimates are biased, and most intervals miss the truth. Draws and
# Rubin's rules use all of the data: the intervals are as narrow as those of the second way, and
# they hold the truth.
#
# Answers here are missing at random. The imputation model has to be able to describe the relation
# of interest: where a table has hardly any low-rank structure, draws weaken the relation towards
# zero.

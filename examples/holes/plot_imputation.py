"""
Which imputer fills the holes best?
===================================

A fifth of a table is missing. Does it matter how the holes are filled, and can an imputer say how
far off it may be?

:func:`~bayespca.cross_validate_entries` hides cells whose values are known, lets every imputer
fill them, and compares. It takes our imputer and those of scikit-learn alike.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.preprocessing import scale

from bayespca import BayesianPCA, BayesianPCAImputer, cross_validate_entries, impute

X = scale(load_wine().data)
rng = np.random.default_rng(0)
X[rng.random(X.shape) < 0.2] = np.nan

# %%
# Columns have unit variance, so filling with the mean has an error of about 1.

found = cross_validate_entries(
    {
        "column means": SimpleImputer(),
        "5 nearest rows": KNNImputer(),
        "BayesianPCAImputer": BayesianPCAImputer(),
        "BayesianPCA(noise='per-feature')": BayesianPCA(noise="per-feature"),
    },
    X,
    n_folds=3,
)
print(found)

# %%
# The Bayesian models also give a standard deviation for every cell; the function ``impute`` fits
# and fills in one call. We hide 60 further cells and look at them one by one.

known = np.argwhere(~np.isnan(X))
hidden = known[rng.permutation(len(known))[:60]]
shown = X.copy()
shown[tuple(hidden.T)] = np.nan
filled, std = impute(shown, return_std=True, noise="per-feature")
truth, guess, error = X[tuple(hidden.T)], filled[tuple(hidden.T)], std[tuple(hidden.T)]

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
means = {name: values.mean() for name, values in found.rmse.items()}
names = ["column means", "5 nearest rows", "BayesianPCA-\nImputer", "BayesianPCA\nper-feature"]
left.bar(names, list(means.values()), color=["0.7", "0.7", "C0", "C0"])
left.tick_params(axis="x", labelsize=8)
left.set(ylabel="error of hidden cells (RMSE, in column SD)", title="The error of each imputer")
order = np.argsort(guess)
inside = np.abs(truth - guess) < 1.96 * error
right.errorbar(
    range(60), guess[order], 1.96 * error[order], fmt="none", color="0.75", label="95 % interval"
)
right.scatter(
    range(60),
    truth[order],
    c=np.where(inside[order], "C0", "C3"),
    s=14,
    zorder=3,
    label="true value",
)
right.set(
    xlabel="hidden cells, in order of the guess",
    ylabel="value, in column SD",
    title=f"{inside.sum()} of 60 true values in their interval",
)
right.legend(frameon=False)
plt.show()

# %%
# Rows of a kind are alike, so both nearest rows and components do better than means. Components
# need no number of neighbours, and their intervals hold what they promise.

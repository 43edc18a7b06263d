"""
Can a pipeline find its own number of components?
=================================================

In a pipeline the number of principal components is one more thing to tune. What does a grid
search over it gain, compared with a model that finds the number in every fold?

Handwritten digits (64 pixels) are reduced by PCA and classified by logistic regression.
Everything is inside the cross-validation, so no test row has a say in the number of components.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from bayespca import BayesianPCA

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]

# %%
# Six fixed numbers with scikit-learn's PCA, and one pipeline that finds its own.

numbers = [2, 5, 10, 20, 30, 40]
accuracy = []
seconds = 0.0
for k in numbers:
    start = time.perf_counter()
    found = cross_validate(make_pipeline(PCA(k), LogisticRegression(max_iter=5000)), X, y, cv=5)
    seconds += time.perf_counter() - start
    accuracy.append(found["test_score"])

start = time.perf_counter()
ours = cross_validate(
    make_pipeline(BayesianPCA(noise="per-feature"), LogisticRegression(max_iter=5000)),
    X,
    y,
    cv=5,
    return_estimator=True,
)
own = time.perf_counter() - start
ranks = [pipeline[0].n_components_ for pipeline in ours["estimator"]]
print("components found in the five folds:", ranks)
print(f"grid of six: {seconds:.1f} s; found: {own:.1f} s")

# %%

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
mean = 100 * np.mean(accuracy, axis=1)
error = 100 * np.std(accuracy, axis=1, ddof=1) / np.sqrt(5)
ax.errorbar(numbers, mean, error, color="0.5", marker="o", capsize=3, label="PCA(k), k given")
ax.errorbar(
    [np.mean(ranks)],
    [100 * np.mean(ours["test_score"])],
    [100 * np.std(ours["test_score"], ddof=1) / np.sqrt(5)],
    xerr=[[np.mean(ranks) - min(ranks)], [max(ranks) - np.mean(ranks)]],
    color="C0",
    marker="D",
    markersize=9,
    capsize=3,
    label="BayesianPCA, k found in each fold",
)
ax.set(xlabel="number of components", ylabel="accuracy on held-out digits, in %")
ax.set_title("The number that is found is on the plateau")
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Bars are standard errors over the five folds. The number that is found lies where the curve has
# become flat, within one standard error of the best of the grid. No label had a say in it, and no
# grid had to be searched.

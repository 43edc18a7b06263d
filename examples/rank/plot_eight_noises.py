"""
What if the noise is not white?
===============================

Textbook rules for the number of components assume noise that is equal in all cells. Which kinds
of real noise break them, and does choosing the noise model by its evidence repair the damage?

:func:`bayespca.datasets.noisy` simulates a signal of known rank under eight kinds of noise: equal
noise, noise that differs between columns, rows or both, heavy tails, gross errors in single
cells, neighbouring columns that go wrong together, and counts.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import BayesianPCA
from bayespca.datasets import noisy

KINDS = ["white", "columns", "rows", "both", "t3", "gross", "ar", "poisson"]
WORDS = [
    "white",
    "by column",
    "by row",
    "by both",
    "Student t₃",
    "gross errors",
    "autoregressive",
    "counts",
]

# %%
# Two tables of 120 × 40 numbers for each kind, all of rank 3. Each is fitted twice: with equal
# noise, and with the noise model that has the most evidence (the default).

chosen = np.zeros((len(KINDS), 2), int)
equal = np.zeros((len(KINDS), 2), int)
for i, kind in enumerate(KINDS):
    for seed in range(2):
        X = noisy(kind, 120, 40, rank=3, random_state=seed).X
        equal[i, seed] = BayesianPCA(noise="isotropic").fit(X).n_components_
        chosen[i, seed] = BayesianPCA().fit(X).n_components_

# %%

fig, ax = plt.subplots(figsize=(8.5, 4), layout="constrained")
jitter = np.array([-0.08, 0.08])
for i in range(len(KINDS)):
    ax.scatter(
        i - 0.18 + jitter, equal[i], color="C1", s=60, label="equal noise" if i == 0 else None
    )
    ax.scatter(
        i + 0.18 + jitter,
        chosen[i],
        color="C0",
        s=60,
        label="chosen by evidence" if i == 0 else None,
    )
ax.axhline(3, color="0.4", linewidth=1, zorder=0)
ax.annotate(
    "the truth",
    (len(KINDS) - 0.5, 3),
    xytext=(0, 4),
    textcoords="offset points",
    ha="right",
    color="0.4",
)
ax.set_xticks(range(len(KINDS)), WORDS, rotation=20)
ax.set(ylabel="number of components found", xlabel="kind of noise", yscale="log")
ax.set_yticks([2, 3, 5, 10, 20], ["2", "3", "5", "10", "20"])
ax.minorticks_off()
ax.set_ylim(1.6, 18)
ax.legend(frameon=False, loc="lower center", ncols=2)
ax.set_title("Equal noise counts noise as components")
plt.show()

# %%
# White noise costs nothing: both find 3. Where the noise is uneven, the model with equal noise
# spends components on loud rows, loud columns and single bad cells.

print("share of right answers, equal noise:  ", round(float(np.mean(equal == 3)), 2))
print("share of right answers, chosen noise: ", round(float(np.mean(chosen == 3)), 2))

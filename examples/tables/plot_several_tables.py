"""
Which factors do several tables share?
======================================

The same patients had their genes, their proteins and their metabolites measured. Which sources of
variation do all three tables share, and which belong to one table alone?

:class:`~bayespca.MultiViewPCA` finds the factors and, for each table, which of them are in it. We
simulate the data, so we know the answer: one factor is in all tables, one in the first two, one
in the last two, and one in the genes alone. The tables differ in size and units.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayespca import MultiViewPCA
from bayespca.displays import ViewsDisplay

rng = np.random.default_rng(0)
sizes = {"genes": 120, "proteins": 60, "metabolites": 30}
units = {"genes": 1.0, "proteins": 50.0, "metabolites": 0.01}
pattern = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]], bool)
scores = rng.normal(size=(150, 4))
views = {}
for v, (name, p) in enumerate(sizes.items()):
    loadings = (
        rng.normal(size=(4, p)) * pattern[:, v, None] * np.array([0.9, 0.7, 0.6, 0.5])[:, None]
    )
    views[name] = units[name] * (scores @ loadings + rng.normal(size=(150, p)))

# %%
# A third of the patients have no metabolites. That is no obstacle.

views["metabolites"][100:] = np.nan
model = MultiViewPCA(random_state=0).fit(views)
print("factors:", model.n_components_)
print("factor × table:\n", model.active_.astype(int))

# %%
# The share of each table's variance that each factor explains. Empty fields are factors that are
# not in the table.

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ViewsDisplay.from_estimator(model, ax=ax)
ax.set_title("What each factor explains of each table")
plt.show()

# %%
# Because factors are shared, two tables say something about the third. We predict the metabolites
# of the last fifty patients and compare with the values before noise was added.

truth = (scores @ loadings)[100:] * units["metabolites"]
predicted, std = model.predict_view(
    {"genes": views["genes"][100:], "proteins": views["proteins"][100:]},
    "metabolites",
    return_std="mean",
)
print(f"correlation with the truth: {np.corrcoef(truth.ravel(), predicted.ravel())[0, 1]:.2f}")
print(f"within 1.96 SD: {np.mean(np.abs(truth - predicted) < 1.96 * std):.0%}")

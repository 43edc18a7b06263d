"""
Can a model be fitted here and used there?
==========================================

A model is fitted in the laboratory and used in the field, by another program on another day. What
has to be kept, and what can it answer later?

``save`` writes one file without code in it, so you can safely load files of unknown origin.
:func:`bayespca.load` gives back the model to the last bit.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import bayespca
from bayespca import BayesianPCA, report

wine = load_wine(as_frame=True)
X, cultivar = wine.data, wine.target
lab, field = X.iloc[::2], X.iloc[1::2].copy()

# %%
# In the laboratory: fit, save, and write a page that people can read.

folder = Path(tempfile.mkdtemp())
model = BayesianPCA(scale=True).fit(lab)
model.save(folder / "wine.bpca")
report.write(folder / "wine.html", model, lab)
for path in sorted(folder.iterdir()):
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} kB")

# %%
# In the field: the file is enough. It holds the feature names, which are checked. A fifth of the
# new wines came without phenols, flavanoids and proline; their scores are less certain, and say
# so.

loaded = bayespca.load(folder / "wine.bpca")
rng = np.random.default_rng(0)
incomplete = rng.random(len(field)) < 0.2
field.loc[incomplete, ["total_phenols", "flavanoids", "proline"]] = np.nan
scores, std = loaded.transform(field, return_std=True)
print(
    "components:",
    loaded.n_components_,
    " same as saved:",
    np.array_equal(loaded.mean_, model.mean_),
)

# %%

fig, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
ax.scatter(*loaded.transform(lab)[:, :2].T, s=12, color="0.8", label="laboratory")
std = np.broadcast_to(std, scores.shape)
for k in range(3):
    chosen = (cultivar.iloc[1::2] == k).to_numpy()
    ax.errorbar(
        *scores[chosen, :2].T,
        xerr=std[chosen, 0],
        yerr=std[chosen, 1],
        fmt="o",
        markersize=4,
        linewidth=0.8,
        label=f"field: cultivar {k + 1}",
    )
ax.set(xlabel="score 1", ylabel="score 2", title="New wines in a saved model (bars: SD)")
ax.legend(frameon=False)
plt.show()

# %%
# Wines without the three measurements have longer horizontal bars. The page ``wine.html`` opens
# in any browser and needs no network.

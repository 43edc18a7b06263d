"""
How many components do single cells need?
=========================================

Pipelines for single-cell RNA keep 50 principal components by habit. How many of them are more
than noise?

:func:`bayespca.scverse.pca` replaces ``scanpy.pp.pca``: it writes to the same places in the
annotated data, so neighbours, clusters and UMAP work as before. The data are the 700 blood cells
in scanpy's wheel.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from bayespca import scverse

with warnings.catch_warnings():
    # scanpy warns about the age of its own file.
    warnings.simplefilter("ignore")
    import scanpy as sc

    cells = sc.datasets.pbmc68k_reduced()

# %%
# One call, and the scores, loadings and variances are where scanpy would have put them.

scverse.pca(cells)
found = cells.uns["pca"]
k = int(found["n_components"])
print(f"{cells.n_obs} cells, {cells.n_vars} genes: {k} components")
share = 100 * found["variance_ratio"].sum()
print(f"they explain {share:.0f} % of the variance; the rest counts as noise")

# %%
# The kinds of cells lie apart on the first components. The variances of the components fall
# towards that of the noise, and the model stops where they no longer stand out.

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.4), layout="constrained", width_ratios=[3, 2]
)
scores = cells.obsm["X_pca"]
kinds = cells.obs["bulk_labels"].astype(str)
for i, kind in enumerate(sorted(set(kinds))):
    chosen = (kinds == kind).to_numpy()
    left.scatter(*scores[chosen, :2].T, s=10, color=plt.colormaps["tab10"](i), label=kind)
left.set(xlabel="component 1", ylabel="component 2", title="Blood cells")
left.legend(fontsize=7, frameon=False, markerscale=1.5)
variance = np.asarray(found["variance"])
right.plot(np.arange(1, k + 1), variance, "o-", markersize=5)
right.axhline(
    float(np.mean(found["noise_variance"])), color="C1", label="noise variance of a gene (mean)"
)
right.set(
    xlabel="component", ylabel="variance", title=f"{k} components instead of 50", yscale="log"
)
right.legend(frameon=False)
plt.show()

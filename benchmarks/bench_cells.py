"""PCA of single cells beside scanpy's: time, components, and clusters against known labels.

The data are the 700 cells that scanpy ships (`pbmc68k_reduced`), with their published labels, and
simulated counts of 5,000 cells of twelve kinds, as logarithms in a sparse matrix. Leiden finds the
clusters from the neighbours under each PCA. The adjusted Rand index is a mean over seeds, at
resolution 1, scanpy's default, and at the best of several, which nobody knows beforehand.

usage: python benchmarks/run.py cells
       python benchmarks/bench_cells.py picture.png
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import anndata as ad
import numpy as np
import scanpy as sc
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from timing import heading, paired

from bayespca import scverse

SEEDS, RESOLUTIONS = range(5), (0.25, 0.5, 1.0, 1.5)
HEAD = "| | components | CPU | Rand index at resolution 1 | at the best |\n|---|---|---|---|---|"


def main() -> None:
    warnings.simplefilter("ignore")
    blood = sc.datasets.pbmc68k_reduced()
    _compared(blood, blood.obs["bulk_labels"], "700 cells × 765 genes in scanpy's wheel")
    cells, kinds = simulated()
    _compared(cells, kinds, "simulated logarithms of 5,000 cells × 2,000 genes, sparse")


def simulated(n: int = 5000, p: int = 2000, kinds: int = 12) -> tuple[ad.AnnData, np.ndarray]:
    """Logarithms of normalised counts, and the kind of each cell; some kinds are rare."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(kinds, 2.0))
    kind = rng.choice(kinds, size=n, p=shares)
    log_rates = rng.normal(-1.5, 1.0, size=p) + 0.8 * rng.normal(size=(kinds, p)) * (
        rng.random((kinds, p)) < 0.05
    )
    within = 0.05 * rng.normal(size=(n, 4)) @ rng.normal(size=(4, p))
    depth = rng.lognormal(0.0, 0.3, size=(n, 1))
    counts = rng.poisson(depth * np.exp(log_rates[kind] + within)).astype(np.float32)
    adata = ad.AnnData(sp.csr_matrix(counts))
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    return adata, kind


def _compared(adata: ad.AnnData, labels: Any, title: str) -> None:
    """Print our PCA beside its peers, timed in turns so that a busy machine slows both."""
    heading(title)
    print(HEAD)
    ours = partial(scverse.pca, adata, copy=True)
    about = ours().uns["pca"]
    found, likeliest = about["n_components"], int(np.argmax(about["rank_posterior"]))
    peers: dict[str, Callable[[], Any]] = {
        "bayespca.scverse.pca, as many as are most probable": partial(
            ours, min_components=likeliest
        ),
        "scanpy.pp.pca, 50 components": partial(sc.pp.pca, adata, copy=True),
        f"scanpy.pp.pca, {found} components": partial(sc.pp.pca, adata, n_comps=found, copy=True),
    }
    times = {name: paired(ours, peer, 3, time.process_time) for name, peer in peers.items()}
    mine = float(np.median([own for own, _ in times.values()]))
    _show("bayespca.scverse.pca", ours(), mine, labels)
    for name, peer in peers.items():
        _show(name, peer(), times[name][1], labels)


def _show(name: str, found: ad.AnnData, seconds: float, labels: Any) -> None:
    usual, best = _agreement(found, labels)
    count = found.obsm["X_pca"].shape[1]
    print(f"| {name} | {count} | {seconds:.2f} s | {usual:.2f} | {best:.2f} |", flush=True)


def _agreement(adata: ad.AnnData, labels: Any) -> tuple[float, float]:
    """Mean adjusted Rand index at resolution 1, and at the best resolution."""
    sc.pp.neighbors(adata, use_rep="X_pca")
    found = {
        resolution: float(np.mean([_rand(adata, labels, resolution, seed) for seed in SEEDS]))
        for resolution in RESOLUTIONS
    }
    return found[1.0], max(found.values())


def _rand(adata: ad.AnnData, labels: Any, resolution: float, seed: int) -> float:
    how: Any = {"flavor": "igraph", "n_iterations": 2, "random_state": seed}
    sc.tl.leiden(adata, resolution=resolution, **how)
    return float(adjusted_rand_score(labels, adata.obs["leiden"]))


def picture(path: str) -> None:
    """Draw a UMAP of scanpy's cells, the variances of components, and scores with their spread."""
    from matplotlib import pyplot as plt

    warnings.simplefilter("ignore")
    adata = sc.datasets.pbmc68k_reduced()
    scverse.pca(adata)
    sc.pp.neighbors(adata)
    sc.tl.umap(adata)
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.8), width_ratios=(1.5, 1, 1), layout="constrained"
    )
    labels = adata.obs["bulk_labels"].cat
    for code, name in enumerate(labels.categories):
        some = adata.obsm["X_umap"][labels.codes == code]
        left.scatter(*some.T, s=6, color=plt.cm.tab10(code), label=name)
    left.set_title("UMAP of the 12 components that are found", fontsize=10)
    left.legend(fontsize=6, markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5))
    left.set_xticks([]), left.set_yticks([])
    about = adata.uns["pca"]
    k = about["n_components"]
    middle.bar(range(1, k + 1), 100 * about["variance_ratio"], color="tab:blue")
    middle.set_title("variance of each component, %", fontsize=10)
    first, std = adata.obsm["X_pca"][:60, 0], adata.obsm["X_pca_std"][:60, 0]
    order = np.argsort(first)
    right.errorbar(range(60), first[order], 2 * std[order], fmt=".", markersize=4, linewidth=0.8)
    right.set_title("component 1 of 60 cells,\n±2 standard deviations", fontsize=10)
    right.set_xlabel("cells, sorted")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    picture(sys.argv[1]) if sys.argv[1:] else main()

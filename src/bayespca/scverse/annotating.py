"""`pca` of annotated data: fits, and writes the results where scanpy looks for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.estimators.generalized_pca import GeneralizedPCA
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.summary import summarize
from bayespca.spectrum.tolerances import TINY

from .matrices import VARIABLE, CellsByGenes, chosen
from .modelling import HowToFit, likelihood_of, model_for, warn


class _Found(NamedTuple):
    """Results to write: scores and loadings with their standard deviations, and entries of uns."""

    scores: FloatArray
    std: FloatArray
    loadings: FloatArray
    loadings_std: FloatArray | None
    about: dict[str, Any]


def pca(
    adata: Any,
    *,
    layer: str | None = None,
    mask_var: Any = VARIABLE,
    noise: str = "auto",
    likelihood: str = "auto",
    n_components: int | str = "auto",
    min_components: int = 0,
    key_added: str | None = None,
    copy: bool = False,
    random_state: int = 0,
) -> Any:
    """PCA of annotated data with automatic number of components; replaces `scanpy.pp.pca`.

    It writes ``obsm["X_pca"]``, ``varm["PCs"]`` and ``uns["pca"]`` (``variance``,
    ``variance_ratio``, ``params``) as scanpy does. It adds ``obsm["X_pca_std"]``,
    ``varm["PCs_std"]`` (not for counts), and in ``uns["pca"]`` ``n_components``,
    ``how_sure`` (in words), ``rank_posterior`` (the probability of each number, if the data
    determine it), ``noise_variance`` and the ``likelihood``.
    Neighbours, UMAP and clustering work as before.

    >>> import anndata
    >>> from bayespca import scverse
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> adata = anndata.AnnData(X)
    >>> scverse.pca(adata)
    >>> adata.obsm["X_pca"].shape, adata.uns["pca"]["n_components"]
    ((100, 3), 3)

    Parameters
    ----------
    adata
        AnnData. Sparse matrices stay sparse, backed files are read in blocks of rows, and Dask
        arrays stay on their workers.
    layer
        The layer to use instead of X; ``"raw"`` for ``adata.raw``.
    mask_var
        Genes to use: the name of a column of ``var``, or one value for each gene; None for
        all. ``"highly_variable"`` also means all genes if ``var`` has no such column.
    noise
        As in `BayesianPCA`.
    likelihood
        ``"normal"`` for logarithms and other numbers; ``"poisson"`` or ``"negative-binomial"`` for
        raw counts, with the size of each cell (`GeneralizedPCA`). ``"auto"`` chooses Poisson for
        raw counts and normal for all else.
    n_components
        The largest number of components allowed.
    min_components
        The fewest components to keep, as in `BayesianPCA`; not for counts. ``rank_posterior`` may
        favour more than the automatic number, and clusters of few cells may need them.
    key_added
        The name under which results go into obsm, varm and uns, as in scanpy.
    copy
        Whether to return a copy with the results, and leave `adata` as it is.
    random_state
        Seed, as in `BayesianPCA`.

    Returns
    -------
    AnnData or None
        The copy if `copy` is true, else None.
    """
    matrix = chosen(adata, layer, mask_var)
    model = model_for(
        matrix, HowToFit(likelihood, noise, n_components, random_state, min_components)
    )
    found = _found(model, matrix)
    if not found.scores.shape[1]:
        warn(f"No component of {matrix.name} is above its noise: X_pca has no columns.")
    masked = mask_var if isinstance(mask_var, str) and mask_var in adata.var else None
    params = {
        "zero_center": True,
        "use_highly_variable": not matrix.genes.all(),
        "mask_var": masked,
        "layer": layer,
        "noise": noise,
        "likelihood": likelihood_of(model),
    }
    target = adata.copy() if copy else adata
    _write(target, matrix, found, {k: v for k, v in params.items() if v is not None}, key_added)
    return target if copy else None


def _found(model: BayesianPCA | GeneralizedPCA, matrix: CellsByGenes) -> _Found:
    if isinstance(model, GeneralizedPCA):
        return _found_in_counts(model, matrix)
    model.fit(matrix.input())
    blocks = matrix.blocks() if matrix.is_stored else [matrix.input()]
    parts = [[_computed(each) for each in model.transform(X, return_std=True)] for X in blocks]
    scores, std = (np.concatenate(each) for each in zip(*parts, strict=True))
    about = {
        "variance": np.asarray(model.explained_variance_),
        "variance_ratio": np.asarray(model.explained_variance_ratio_),
        "how_sure": summarize(model).how_sure,
        "noise_variance": float(model.noise_variance_),
    }
    if model.rank_posterior_ is not None:
        about["rank_posterior"] = np.asarray(model.rank_posterior_)
    loadings, spread = np.asarray(model.components_).T, np.asarray(model.components_std_).T
    return _Found(scores, std, loadings, spread, about)


def _found_in_counts(model: GeneralizedPCA, matrix: CellsByGenes) -> _Found:
    X = matrix.in_memory()
    scores, std = model.fit(X).transform(X, return_std=True)
    variance = scores.var(axis=0)
    about = {"variance": variance, "variance_ratio": variance / max(float(variance.sum()), TINY)}
    return _Found(scores, std, np.asarray(model.components_).T, None, about)


def _computed(values: Any) -> FloatArray:
    return np.asarray(values.compute() if hasattr(values, "compute") else values)


def _write(
    adata: Any, matrix: CellsByGenes, found: _Found, params: dict[str, Any], key: str | None
) -> None:
    """Write to obsm, varm and uns, in single precision where scanpy uses it."""
    scores, loadings, about = ("X_pca", "PCs", "pca") if key is None else (key, key, key)
    adata.obsm[scores] = found.scores.astype(np.float32)
    adata.obsm[f"{scores}_std"] = found.std.astype(np.float32)
    if matrix.genes.size == adata.n_vars:
        adata.varm[loadings] = matrix.full(found.loadings).astype(np.float32)
        if found.loadings_std is not None:
            adata.varm[f"{loadings}_std"] = matrix.full(found.loadings_std).astype(np.float32)
    else:
        warn(f"{matrix.name} has other genes than adata, so varm cannot hold the loadings.")
    rank = {"n_components": int(found.scores.shape[1])}
    adata.uns[about] = {"params": params} | found.about | rank

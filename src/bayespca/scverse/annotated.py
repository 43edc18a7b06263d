"""PCA of annotated data, and layers without noise or holes: fits, and writes for scanpy."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray
from bayespca.estimators.generalized_pca import GeneralizedPCA
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.summary import summarize
from bayespca.spectrum.tolerances import TINY

from .matrices import VARIABLE, BoolArray, CellsByGenes, chosen

Model = BayesianPCA | GeneralizedPCA

COUNTS = ("poisson", "negative-binomial")
LIKELIHOODS = ("auto", "normal", *COUNTS)


def model_for(
    matrix: CellsByGenes,
    likelihood: str,
    noise: str,
    n_components: int | str,
    random_state: int,
    least: int = 0,
) -> Model:
    """The estimator for a matrix; warns if raw counts are fitted with normal noise."""
    if likelihood not in LIKELIHOODS:
        known = ", ".join(map(repr, LIKELIHOODS))
        raise ValueError(f"likelihood must be one of {known}; got {likelihood!r}.")
    counts = matrix.holds_counts()
    if likelihood == "normal" and counts:
        warn_of_counts(matrix)
    if likelihood == "auto":
        likelihood = "poisson" if counts else "normal"
    if likelihood == "normal":
        how: Any = {"n_components": n_components, "noise": noise, "min_components": least}
        return BayesianPCA(**how, random_state=random_state)
    if noise != "auto":
        raise ValueError(
            f"noise={noise!r} cannot be used with counts, whose noise follows from their rates."
        )
    if least:
        raise ValueError(
            f"min_components={least!r} cannot be used with counts, which keep only the components "
            "that are found."
        )
    return GeneralizedPCA(n_components, likelihood=likelihood, row_sizes=True)


def warn_of_counts(matrix: CellsByGenes) -> None:
    warn(
        f"{matrix.name} holds raw counts, whose noise grows with their means: use "
        'likelihood="poisson", or run scanpy.pp.normalize_total and scanpy.pp.log1p first.'
    )


def warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


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
    model = model_for(matrix, likelihood, noise, n_components, random_state, min_components)
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
        "likelihood": "normal" if isinstance(model, BayesianPCA) else str(model.likelihood),
    }
    target = adata.copy() if copy else adata
    _write(target, matrix, found, {k: v for k, v in params.items() if v is not None}, key_added)
    return target if copy else None


def _found(model: BayesianPCA | GeneralizedPCA, matrix: CellsByGenes) -> _Found:
    if isinstance(model, GeneralizedPCA):
        X = matrix.in_memory()
        scores, std = model.fit(X).transform(X, return_std=True)
        variance = scores.var(axis=0)
        ratio = variance / max(float(variance.sum()), TINY)
        about = {"variance": variance, "variance_ratio": ratio}
        return _Found(scores, std, np.asarray(model.components_).T, None, about)
    model.fit(matrix.input())
    blocks = matrix.blocks() if matrix.is_stored else [matrix.input()]
    parts = [
        [
            np.asarray(each.compute() if hasattr(each, "compute") else each)
            for each in model.transform(X, return_std=True)
        ]
        for X in blocks
    ]
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


def denoise(
    adata: Any,
    *,
    layer: str | None = None,
    mask_var: Any = VARIABLE,
    noise: str = "auto",
    likelihood: str = "auto",
    n_components: int | str = "auto",
    layer_added: str = "denoised",
    copy: bool = False,
    random_state: int = 0,
) -> Any:
    """Write the matrix without noise as a layer: the expected value of every cell, NaN or not.

    Genes outside `mask_var` stay as they are. For counts the layer holds rates, so zeros that are
    due to chance become positive. The layer is dense: cells × genes numbers. Parameters are those
    of `pca`. `impute` keeps what was measured, and fills only NaN.

    >>> import anndata
    >>> from bayespca import scverse
    >>> from bayespca.datasets import low_rank
    >>> adata = anndata.AnnData(low_rank(100, 12, 3, random_state=0).X)
    >>> scverse.denoise(adata)
    >>> "denoised" in adata.layers
    True
    """
    matrix = _with_genes_of(adata, layer, mask_var)
    model = model_for(matrix, likelihood, noise, n_components, random_state)
    values = matrix.in_memory()
    model.fit(values)
    if isinstance(model, GeneralizedPCA):
        clean = np.asarray(model.predict_cells(values))
    else:
        clean = np.asarray(model.denoise(values.toarray() if is_sparse(values) else values))
    whole = matrix.whole()
    whole = whole.toarray() if is_sparse(whole) else whole
    whole = whole.astype(clean.dtype, copy=False)
    whole[:, matrix.genes] = clean
    target = adata.copy() if copy else adata
    target.layers[layer_added] = whole
    return target if copy else None


def impute(
    adata: Any,
    *,
    layer: str | None = None,
    mask_var: Any = VARIABLE,
    noise: str = "auto",
    likelihood: str = "auto",
    n_components: int | str = "auto",
    layer_added: str = "imputed",
    std_added: str | None = None,
    copy: bool = False,
    random_state: int = 0,
) -> Any:
    """Write the matrix as a layer with each NaN replaced by its expected value.

    All other values stay as they are, and a sparse matrix stays sparse. NaN of counts are filled
    with rates. Zeros are measurements and stay, too: `denoise` writes expected values in their
    place, and zeros that stand for "not measured" have to be NaN. NaN are filled in the genes of
    `mask_var` only; a warning counts the other genes with NaN.

    >>> import anndata
    >>> import numpy as np
    >>> from bayespca import scverse
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> X[0, 5] = np.nan
    >>> adata = anndata.AnnData(X)
    >>> scverse.impute(adata, std_added="std")
    >>> int(np.isnan(adata.layers["imputed"]).sum()), int((adata.layers["std"] > 0).sum())
    (0, 1)

    Parameters
    ----------
    adata, layer, mask_var, noise, likelihood, n_components, copy, random_state
        As in `pca`.
    layer_added
        The layer to write.
    std_added
        The layer for the predictive standard deviations of the values that NaN replace; 0 where
        there is a value. By default none is written.

    Returns
    -------
    AnnData or None
        The copy if `copy` is true, else None.
    """
    matrix = _with_genes_of(adata, layer, mask_var)
    whole = matrix.whole()
    holes = _holes(whole)
    _warn_of_holes(holes, matrix)
    holes &= matrix.genes
    std = np.zeros(0)
    if holes.any():
        model = model_for(matrix, likelihood, noise, n_components, random_state)
        values = matrix.in_memory()
        model.fit(values)
        predict = model.predict_cells if isinstance(model, GeneralizedPCA) else model.impute
        mean, std = predict(values, return_std=True)
        inside = holes[:, matrix.genes]
        mean, std = mean[inside], std[inside]
        whole = _with_values(whole, holes, mean)
    target = adata.copy() if copy else adata
    target.layers[layer_added] = whole
    if std_added is not None:
        shape, dtype = whole.shape, whole.dtype
        empty = type(whole)(shape, dtype=dtype) if is_sparse(whole) else np.zeros(shape, dtype)
        target.layers[std_added] = _with_values(empty, holes, std)
    return target if copy else None


def _with_genes_of(adata: Any, layer: str | None, mask_var: Any) -> CellsByGenes:
    """The chosen matrix; an error if its genes are not those of adata, as a layer needs."""
    matrix = chosen(adata, layer, mask_var)
    if matrix.genes.size != adata.n_vars:
        raise ValueError(
            "adata.raw has other genes than adata, and a layer must have the same: give "
            "adata.raw.to_adata()."
        )
    return matrix


def _holes(whole: Any) -> BoolArray:
    """Mask of NaN: (cells, genes)."""
    if not is_sparse(whole):
        return np.isnan(whole)
    found = np.zeros(whole.shape, dtype=np.bool_)
    entries = whole.tocoo()
    of_nan = np.isnan(entries.data)
    found[entries.row[of_nan], entries.col[of_nan]] = True
    return found


def _warn_of_holes(holes: BoolArray, matrix: CellsByGenes) -> None:
    if not holes.any():
        warn(
            f"{matrix.name} has no NaN, so that there is nothing to fill; scverse.denoise writes "
            "what is expected in place of zeros and all other values."
        )
    outside = int(np.count_nonzero(holes[:, ~matrix.genes].any(axis=0)))
    if outside:
        warn(
            f"{matrix.name} has NaN in {outside} genes outside of mask_var, which stay: give "
            "mask_var=None to fill them."
        )


def _with_values(whole: Any, holes: BoolArray, values: FloatArray) -> Any:
    """The matrix with its holes filled, row by row."""
    if not is_sparse(whole):
        whole[holes] = values
        return whole
    entries = whole.tocoo()
    keep = ~holes[entries.row, entries.col]
    rows, columns = np.nonzero(holes)
    data = np.concatenate([entries.data[keep], values.astype(whole.dtype)])
    places = (np.r_[entries.row[keep], rows], np.r_[entries.col[keep], columns])
    return type(entries)((data, places), shape=whole.shape).tocsr()

"""`denoise` and `impute` of annotated data: layers without noise or without holes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray
from bayespca.estimators.generalized_pca import GeneralizedPCA

from .matrices import VARIABLE, BoolArray, CellsByGenes, chosen
from .modelling import HowToFit, Model, model_for, warn


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
    model = model_for(matrix, HowToFit(likelihood, noise, n_components, random_state))
    values = matrix.in_memory()
    clean = _clean(model.fit(values), values)
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
        model = model_for(matrix, HowToFit(likelihood, noise, n_components, random_state))
        mean, std = _predicted(model, matrix.in_memory())
        inside = holes[:, matrix.genes]
        mean, std = mean[inside], std[inside]
        whole = _with_values(whole, holes, mean)
    target = adata.copy() if copy else adata
    target.layers[layer_added] = whole
    if std_added is not None:
        target.layers[std_added] = _with_values(_nothing(whole), holes, std)
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


def _clean(model: Model, values: Any) -> FloatArray:
    if isinstance(model, GeneralizedPCA):
        return np.asarray(model.predict_cells(values))
    dense = values.toarray() if is_sparse(values) else values
    return np.asarray(model.denoise(dense))


def _predicted(model: Model, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Predictive means and standard deviations of all cells, from values with holes."""
    model.fit(values)
    if isinstance(model, GeneralizedPCA):
        return model.predict_cells(values, return_std=True)
    return model.impute(values, return_std=True)


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


def _nothing(whole: Any) -> Any:
    """Zeros with the shape and type of the matrix."""
    if is_sparse(whole):
        return type(whole)(whole.shape, dtype=whole.dtype)
    return np.zeros_like(whole)

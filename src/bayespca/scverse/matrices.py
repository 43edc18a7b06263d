"""Selection of a matrix of annotated data, and ways to read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import FloatArray
from bayespca.estimators._input_types import is_of

BoolArray = NDArray[np.bool_]

RAW, VARIABLE = "raw", "highly_variable"
# Matrix entries of a file to read at a time.
READ = 1 << 24
# Rows examined to see whether a matrix holds counts.
LOOKED_AT = 200


@dataclass(frozen=True, eq=False)
class CellsByGenes:
    """A matrix of cells × genes with a mask of the genes to use; `name` is for messages."""

    values: Any
    genes: BoolArray
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(np.count_nonzero(self.genes))

    @property
    def is_stored(self) -> bool:
        """Whether the matrix is in a file, not in memory or a Dask array."""
        return not (
            isinstance(self.values, np.ndarray) or is_sparse(self.values) or self.is_distant
        )

    @property
    def is_distant(self) -> bool:
        return is_of(self.values, "dask")

    def input(self) -> Any:
        """Input for estimators: the matrix, or an iterator over blocks of its rows."""
        return self.blocks() if self.is_stored else _readable(self._of_genes(self.values))

    def blocks(self) -> Iterator[Any]:
        """Dense blocks of rows, read from the file one after the other."""
        return (part.toarray() if is_sparse(part) else part for part in self._parts())

    def _parts(self) -> Iterator[Any]:
        n, p = self.values.shape
        step = max(1, READ // max(p, 1))
        for first in range(0, n, step):
            yield self._of_genes(self.values[first : min(first + step, n)])

    def _of_genes(self, values: Any) -> Any:
        return values if self.genes.all() else values[:, self.genes]

    def in_memory(self) -> Any:
        """The matrix with the chosen genes, in memory."""
        if self.is_distant:
            return self.input().compute()
        if not self.is_stored:
            return self.input()
        parts = list(self._parts())
        return _readable(sp.vstack(parts).tocsr()) if is_sparse(parts[0]) else np.concatenate(parts)

    def whole(self) -> Any:
        """A copy in memory of the matrix with all genes: sparse, or an array."""
        whole = self.values[:]
        whole = whole.compute() if self.is_distant else whole
        return whole.copy() if is_sparse(whole) else np.array(whole)

    def holds_counts(self) -> bool:
        """Whether the first rows, NaN aside, hold whole numbers of at least 0, some above 1."""
        head = self._of_genes(self.values[:LOOKED_AT])
        if self.is_distant:
            head = head.compute()
        x = np.asarray(head.data if is_sparse(head) else head, dtype=np.float64)
        x = x[~np.isnan(x)]
        return bool(x.size and x.min() >= 0 and x.max() > 1 and (x == np.rint(x)).all())

    def full(self, loadings: FloatArray) -> FloatArray:
        """Loadings of all genes: 0 for genes outside the mask."""
        found = np.zeros((self.genes.size, loadings.shape[1]), dtype=loadings.dtype)
        found[self.genes] = loadings
        return found


def _readable(values: Any) -> Any:
    """The matrix, made dense if it is sparse with NaN: estimators accept holes in arrays only."""
    return values.toarray() if is_sparse(values) and np.isnan(values.data).any() else values


def chosen(adata: Any, layer: str | None, mask_var: Any, called: str = "adata") -> CellsByGenes:
    """X, a layer or ``"raw"`` of annotated data, with a mask of genes.

    `called` names the data in messages.
    """
    if not is_of(adata, "anndata"):
        raise TypeError(
            f"{called} is a {type(adata).__name__}, but AnnData are needed: BayesianPCA().fit(X) "
            "takes arrays, and bayespca.scverse.multiview(mdata) a MuData."
        )
    if layer == RAW and RAW not in adata.layers:
        if adata.raw is None:
            raise ValueError(f'layer="raw", but {called}.raw is None.')
        values, var, name = adata.raw.X, adata.raw.var, f"{called}.raw.X"
    elif layer is not None:
        if layer not in adata.layers:
            # In anndata 0.13 the key None stands for X.
            known = ", ".join(repr(key) for key in adata.layers if key is not None) or "none"
            raise ValueError(f"{called} has no layer {layer!r}; it has {known}.")
        values, var, name = adata.layers[layer], adata.var, f"{called}.layers[{layer!r}]"
    else:
        values, var, name = adata.X, adata.var, f"{called}.X"
    if values is None or not min(values.shape):
        raise ValueError(f"{name} holds no data.")
    if hasattr(values, "tocsr"):
        values = values.tocsr()
    return CellsByGenes(values, _mask(mask_var, var, called), name)


def _mask(mask_var: Any, var: Any, called: str) -> BoolArray:
    """Mask of genes, from a column name of `var`, one value for each gene, or None for all."""
    if mask_var is None:
        return np.ones(len(var), dtype=np.bool_)
    if isinstance(mask_var, str):
        if mask_var not in var and mask_var == VARIABLE:
            return np.ones(len(var), dtype=np.bool_)
        if mask_var not in var:
            raise ValueError(
                f"{called}.var has no column {mask_var!r}: give mask_var=None for all genes, or "
                "run scanpy.pp.highly_variable_genes first."
            )
        mask_var = var[mask_var]
    found = np.asarray(mask_var, dtype=np.bool_)
    if found.shape != (len(var),):
        raise ValueError(f"mask_var has shape {found.shape}, but there are {len(var)} genes.")
    if not found.any():
        raise ValueError("mask_var has no gene in it.")
    return found

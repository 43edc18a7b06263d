"""`multiview` of multimodal data: factors of all modalities, written where scverse expects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.estimators._input_types import is_of
from bayespca.estimators._view_noise import Noise
from bayespca.estimators.multi_view import MultiViewPCA
from bayespca.io.packages import need

from .annotated import COUNTS, warn, warn_of_counts
from .matrices import VARIABLE, CellsByGenes, chosen

KINDS = ("auto", "normal", "bernoulli", *COUNTS)
MULTIVIEW = "multiview"


def multiview(
    mdata: Any,
    *,
    layer: Any = None,
    mask_var: Any = VARIABLE,
    noise: Noise = "auto",
    likelihood: Any = "auto",
    n_components: Any = "auto",
    key_added: str | None = None,
    copy: bool = False,
) -> Any:
    """`MultiViewPCA` of MuData: factors of all modalities, and the modalities each is active in.

    Writes ``mdata.obsm["X_multiview"]`` (scores, with ``obsm["X_multiview_std"]`` beside them),
    ``varm["multiview"]`` of each modality (loadings, 0 where a factor is inactive) and
    ``mdata.uns["multiview"]``: ``n_components``; tables of factors × modalities ``active``,
    ``active_probability`` and ``variance_ratio``; ``noise_variance`` and ``likelihoods`` of each
    modality, and ``params``. The scores of a cell come from those modalities that have the cell.
    Continue with ``scanpy.pp.neighbors(mdata, use_rep="X_multiview")``.

    >>> import anndata
    >>> import mudata
    >>> from bayespca import scverse
    >>> from bayespca.datasets import low_rank
    >>> both = anndata.AnnData(low_rank(100, 30, 3, random_state=0).X)
    >>> mdata = mudata.MuData({"rna": both[:, :20].copy(), "protein": both[:, 20:].copy()})
    >>> scverse.multiview(mdata)
    >>> mdata.obsm["X_multiview"].shape
    (100, 3)

    Parameters
    ----------
    mdata
        MuData whose modalities share cells; it is read into memory.
    layer, mask_var
        As in `pca`, for all modalities, or a dictionary by modality; modalities that it does not
        name use X and their highly variable genes.
    noise
        As in `MultiViewPCA`.
    likelihood
        ``"normal"``, ``"bernoulli"``, ``"poisson"`` or ``"negative-binomial"`` for all modalities,
        or a dictionary by modality. ``"auto"`` chooses Poisson for raw counts and normal noise for
        all else. Rates are not scaled by cell size here, so the size appears as a factor.
    n_components
        The largest number of factors allowed.
    key_added
        The name under which results go into obsm, varm and uns.
    copy
        Whether to return a copy with the results, and leave `mdata` as it is.

    Returns
    -------
    MuData or None
        The copy if `copy` is true, else None.
    """
    _check(mdata, {"layer": layer, "mask_var": mask_var, "likelihood": likelihood})
    matrices = {
        name: chosen(
            one,
            _of(layer, name, None),
            _of(mask_var, name, VARIABLE),
            called=f"mdata[{name!r}]",
        )
        for name, one in mdata.mod.items()
    }
    kinds = {
        name: _likelihood(matrix, _of(likelihood, name, "auto"))
        for name, matrix in matrices.items()
    }
    model = MultiViewPCA(n_components, noise=noise, likelihood=kinds)
    scores, std = _fitted(model, mdata, matrices)
    target = mdata.copy() if copy else mdata
    if not model.n_components_:
        warn("Nothing in mdata is above its noise: there are no factors.")
    place, key = (f"X_{MULTIVIEW}", MULTIVIEW) if key_added is None else (key_added, key_added)
    target.obsm[place] = scores.astype(np.float32)
    target.obsm[f"{place}_std"] = std.astype(np.float32)
    for name, matrix in matrices.items():
        _write_loadings(target.mod[name], matrix, np.asarray(model.components_[name]).T, key)
    params = {"layer": layer, "mask_var": mask_var, "noise": noise}
    # Only names, and names by modality, can be written to a file.
    kept = {}
    for option, value in params.items():
        given = value.values() if isinstance(value, Mapping) else [value]
        if all(isinstance(one, str) for one in given):
            kept[option] = value
    target.uns[key] = _about(model) | {"params": kept}
    return target if copy else None


def _check(mdata: Any, by_modality: dict[str, Any]) -> None:
    if not is_of(mdata, "mudata"):
        raise TypeError(
            f"mdata is a {type(mdata).__name__}, but MuData are needed: bayespca.scverse.pca(adata)"
            " takes AnnData, and MultiViewPCA().fit(tables) a dictionary of tables."
        )
    if not len(mdata.mod):
        raise ValueError("mdata has no modalities.")
    if getattr(mdata, "axis", 0) != 0:
        raise ValueError(
            "The modalities of mdata share genes, not cells (axis is not 0): put their cells below "
            "each other, and call bayespca.scverse.pca."
        )
    for option, value in by_modality.items():
        unknown = sorted(set(value) - set(mdata.mod)) if isinstance(value, Mapping) else []
        if unknown:
            known = ", ".join(map(repr, mdata.mod))
            raise ValueError(f"{option} names the modality {unknown[0]!r}, but mdata has {known}.")
    names = {name for one in mdata.mod.values() for name in one.obs_names}
    if names != set(mdata.obs_names):
        raise ValueError(
            "mdata has other cells than its modalities together: call mdata.update() first."
        )


def _of(option: Any, name: str, default: Any) -> Any:
    return option.get(name, default) if isinstance(option, Mapping) else option


def _likelihood(matrix: CellsByGenes, likelihood: str) -> str:
    if likelihood not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise ValueError(f"likelihood of {matrix.name} must be one of {known}; got {likelihood!r}.")
    if likelihood not in ("auto", "normal") or not matrix.holds_counts():
        return "normal" if likelihood == "auto" else likelihood
    if likelihood == "normal":
        warn_of_counts(matrix)
        return likelihood
    warn(
        f"{matrix.name} holds raw counts and gets a Poisson likelihood; one factor will be the "
        "size of cells. Run scanpy.pp.normalize_total and scanpy.pp.log1p first to avoid it, or "
        'pass likelihood="poisson" to silence this warning.'
    )
    return "poisson"


def _fitted(
    model: MultiViewPCA, mdata: Any, matrices: dict[str, CellsByGenes]
) -> tuple[FloatArray, FloatArray]:
    """Fit, and return scores and their standard deviations in the order of the cells of mdata."""
    anndata = need("anndata", "scverse.multiview")
    tables = {}
    for name, matrix in matrices.items():
        one = mdata.mod[name]
        var = one.raw.var if matrix.genes.size != one.n_vars else one.var
        kept = var.loc[matrix.genes, []]
        tables[name] = anndata.AnnData(matrix.in_memory(), obs=one.obs[[]], var=kept)
    scores, std = model.fit(tables).transform(tables, return_std=True)
    place = {name: row for row, name in enumerate(model.sample_names_)}
    order = [place[name] for name in mdata.obs_names]
    return np.asarray(scores)[order], np.asarray(std)[order]


def _write_loadings(adata: Any, matrix: CellsByGenes, loadings: FloatArray, key: str) -> None:
    if matrix.genes.size == adata.n_vars:
        adata.varm[key] = matrix.full(loadings).astype(np.float32)
    else:
        warn(f"{matrix.name} has other genes than its modality, so varm cannot hold the loadings.")


def _about(model: MultiViewPCA) -> dict[str, Any]:
    pandas = need("pandas", "scverse.multiview")
    names = [str(name) for name in model.view_names_]
    factors = [f"factor {k}" for k in range(1, model.n_components_ + 1)]
    tables = {
        "active": model.active_,
        "active_probability": model.active_probability_,
        "variance_ratio": model.explained_variance_ratio_,
    }
    found: dict[str, Any] = {
        key: pandas.DataFrame(np.asarray(values), index=factors, columns=names)
        for key, values in tables.items()
    }
    found["n_components"] = int(model.n_components_)
    noise = zip(names, np.asarray(model.noise_variance_).tolist(), strict=True)
    return found | {"noise_variance": dict(noise), "likelihoods": dict(model.likelihoods_)}

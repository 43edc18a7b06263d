"""Layers with their holes filled: what `impute` writes, and what it leaves as it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayespca import BayesianPCA, GeneralizedPCA, scverse
from bayespca.datasets import low_rank

ad = pytest.importorskip("anndata")


def with_holes(share=0.1, *, counts=False, seed=0):
    """AnnData with holes, the matrix before cells were hidden, and the mask of hidden cells."""
    rng = np.random.default_rng(seed)
    whole = low_rank(120, 30, 3, random_state=seed).X.astype(np.float64)
    if counts:
        Z = 0.6 * rng.normal(size=(150, 2)) @ rng.normal(size=(2, 40)) + 0.5
        whole = rng.poisson(np.exp(Z)).astype(np.float64)
    hidden = rng.random(whole.shape) < share
    return ad.AnnData(np.where(hidden, np.nan, whole)), whole, hidden


def test_holes_are_filled_and_all_else_stays():
    adata, whole, hidden = with_holes()
    assert scverse.impute(adata, noise="isotropic", std_added="std") is None
    model = BayesianPCA(noise="isotropic", random_state=0).fit(adata.X)
    mean, std = model.impute(adata.X, return_std=True)
    filled = adata.layers["imputed"]
    assert np.array_equal(filled[~hidden], whole[~hidden])
    assert filled == pytest.approx(mean)
    assert adata.layers["std"] == pytest.approx(std)
    assert not adata.layers["std"][~hidden].any()
    assert np.isnan(adata.X[hidden]).all()
    left = (filled - whole)[hidden] / adata.layers["std"][hidden]
    assert left.std() == pytest.approx(1.0, abs=0.15)


def test_holes_of_counts_are_filled_with_rates():
    adata, whole, hidden = with_holes(counts=True)
    copied = scverse.impute(adata, copy=True, layer_added="full", std_added="std")
    assert not adata.layers
    filled, std = copied.layers["full"], copied.layers["std"]
    model = GeneralizedPCA(likelihood="poisson", row_sizes=True).fit(adata.X)
    mean, expected = model.predict_cells(adata.X, return_std=True)
    assert filled[hidden] == pytest.approx(mean[hidden])
    assert std[hidden] == pytest.approx(expected[hidden])
    assert np.array_equal(filled[~hidden], whole[~hidden])
    left = (filled - whole)[hidden] / std[hidden]
    assert left.std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_sparse_stays_sparse(kind):
    adata, _, hidden = with_holes()
    adata.X = np.where(np.abs(adata.X) < 0.5, 0.0, adata.X)
    expected = scverse.impute(adata, noise="isotropic", std_added="std", copy=True)
    adata.X = kind(adata.X)
    scverse.impute(adata, noise="isotropic", std_added="std")
    for name in ("imputed", "std"):
        assert sp.issparse(adata.layers[name])
        assert adata.layers[name].toarray() == pytest.approx(expected.layers[name])
    assert adata.layers["std"].nnz == hidden.sum()
    scverse.denoise(adata, noise="isotropic")
    assert np.isfinite(adata.layers["denoised"]).all()
    scverse.pca(adata, noise="isotropic")
    assert adata.obsm["X_pca"].shape == (120, 3)


def test_holes_of_genes_that_take_no_part_stay_and_are_counted():
    adata, _, hidden = with_holes()
    adata.var["highly_variable"] = np.arange(30) >= 4
    with pytest.warns(UserWarning, match="NaN in 4 genes outside of mask_var"):
        scverse.impute(adata, noise="isotropic")
    filled = adata.layers["imputed"]
    assert np.isfinite(filled[:, 4:]).all()
    assert np.array_equal(np.isnan(filled[:, :4]), hidden[:, :4])


def test_data_without_holes_have_a_copy_and_a_warning():
    adata, whole, _ = with_holes(0.0)
    with pytest.warns(UserWarning, match="adata.X has no NaN, so that there is nothing to fill"):
        scverse.impute(adata, std_added="std")
    assert np.array_equal(adata.layers["imputed"], whole)
    assert not adata.layers["std"].any()


def test_files_and_dask_are_what_memory_is(tmp_path):
    da = pytest.importorskip("dask.array")
    adata, _, _ = with_holes()
    expected = scverse.impute(adata, noise="isotropic", copy=True).layers["imputed"]
    adata.write_h5ad(tmp_path / "a.h5ad")
    backed = ad.read_h5ad(tmp_path / "a.h5ad", backed="r+")
    scverse.impute(backed, noise="isotropic")
    assert backed.layers["imputed"] == pytest.approx(expected)
    backed.file.close()
    adata.X = da.from_array(adata.X, chunks=(50, 30))
    scverse.impute(adata, noise="isotropic")
    assert adata.layers["imputed"] == pytest.approx(expected)


def test_counts_with_holes_are_counts():
    adata, _, _ = with_holes(counts=True)
    scverse.pca(adata)
    assert adata.uns["pca"]["params"]["likelihood"] == "poisson"


def test_deviations_of_expected_counts_hold_what_they_should():
    """The variance of a predicted count is that of its rate plus its mean, the Poisson noise."""
    adata, _, _ = with_holes(counts=True)
    model = GeneralizedPCA(likelihood="poisson").fit(adata.X)
    mean, std = model.predict_cells(adata.X, return_std=True)
    rates, of_rates = model.predict_cells(adata.X, return_std="mean")
    assert np.array_equal(mean, rates)
    assert np.array_equal(mean, model.predict_cells(adata.X))
    assert std**2 == pytest.approx(of_rates**2 + mean, rel=1e-4)
    with pytest.raises(ValueError, match="return_std"):
        model.predict_cells(adata.X, return_std="cells")

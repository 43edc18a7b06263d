"""Annotated data: what `pca` and `denoise` write and where; files, Dask, counts, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from bayespca import BayesianPCA, scverse
from bayespca.datasets import low_rank

ad = pytest.importorskip("anndata")


def annotated(n=120, p=30, rank=3, *, sparse=False, seed=0):
    X = low_rank(n, p, rank, random_state=seed).X.astype(np.float64)
    if sparse:
        X = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    var = pd.DataFrame({"highly_variable": np.arange(p) % 3 > 0}, index=[f"g{j}" for j in range(p)])
    return ad.AnnData(X, var=var, obs=pd.DataFrame(index=[f"c{i}" for i in range(n)]))


def counts(n=150, p=40, seed=0):
    rng = np.random.default_rng(seed)
    Z = 0.6 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + 0.5
    return ad.AnnData(sp.csr_matrix(rng.poisson(np.exp(Z)).astype(np.float32)))


def test_it_is_bayesian_pca_of_the_variable_genes():
    adata = annotated()
    assert scverse.pca(adata) is None
    mask = adata.var["highly_variable"].to_numpy()
    model = BayesianPCA(random_state=0).fit(adata.X[:, mask])
    scores, std = model.transform(adata.X[:, mask], return_std=True)
    assert adata.obsm["X_pca"] == pytest.approx(scores, abs=1e-5)
    assert adata.obsm["X_pca_std"] == pytest.approx(std, abs=1e-5)
    assert adata.varm["PCs"][mask] == pytest.approx(model.components_.T, abs=1e-5)
    assert not adata.varm["PCs"][~mask].any()
    assert adata.varm["PCs_std"][mask] == pytest.approx(model.components_std_.T, abs=1e-5)
    about = adata.uns["pca"]
    assert about["variance"] == pytest.approx(model.explained_variance_)
    assert about["variance_ratio"] == pytest.approx(model.explained_variance_ratio_)
    assert about["rank_posterior"] == pytest.approx(model.rank_posterior_)
    assert about["noise_variance"] == pytest.approx(model.noise_variance_)
    assert about["n_components"] == model.n_components_ == 3
    assert about["params"] == {
        "zero_center": True,
        "use_highly_variable": True,
        "mask_var": "highly_variable",
        "noise": "auto",
        "likelihood": "normal",
    }


def test_genes_layers_and_keys():
    adata = annotated()
    adata.layers["twice"] = 2 * adata.X
    adata.raw = adata.copy()
    plain = scverse.pca(adata, mask_var=None, copy=True)
    assert "X_pca" not in adata.obsm
    assert plain.varm["PCs"].any(axis=1).all()
    scverse.pca(adata, layer="twice", mask_var=None, key_added="double")
    assert adata.obsm["double"] == pytest.approx(2 * plain.obsm["X_pca"], rel=1e-4, abs=1e-4)
    assert adata.uns["double"]["params"]["layer"] == "twice"
    raw = scverse.pca(adata, layer="raw", mask_var=None, copy=True)
    assert raw.obsm["X_pca"] == pytest.approx(plain.obsm["X_pca"], abs=1e-5)
    few = scverse.pca(adata, mask_var=np.arange(30) < 10, copy=True)
    assert not few.varm["PCs"][10:].any()
    del adata.var["highly_variable"]
    everything = scverse.pca(adata, copy=True)
    assert everything.obsm["X_pca"] == pytest.approx(plain.obsm["X_pca"], abs=1e-5)


def test_sparse_files_and_dask_are_what_memory_is(tmp_path):
    da = pytest.importorskip("dask.array")
    adata = annotated(sparse=True)
    expected = scverse.pca(adata, noise="isotropic", copy=True).obsm["X_pca"]
    dense = adata.copy()
    dense.X = adata.X.toarray()
    found = scverse.pca(dense, noise="isotropic", copy=True).obsm["X_pca"]
    assert np.abs(found) == pytest.approx(np.abs(expected), abs=1e-4)
    for each, name in ((adata, "sparse.h5ad"), (dense, "dense.h5ad")):
        each.write_h5ad(tmp_path / name)
        backed = ad.read_h5ad(tmp_path / name, backed="r+")
        scverse.pca(backed, noise="isotropic")
        assert np.abs(backed.obsm["X_pca"]) == pytest.approx(np.abs(expected), abs=1e-4)
        backed.file.close()
    distant = dense.copy()
    distant.X = da.from_array(dense.X, chunks=(50, 30))
    scverse.pca(distant, noise="isotropic")
    assert np.abs(distant.obsm["X_pca"]) == pytest.approx(np.abs(expected), abs=1e-4)


def test_results_can_be_written(tmp_path):
    for adata in (annotated(), counts()):
        scverse.pca(adata)
        adata.write_h5ad(tmp_path / "a.h5ad")
        again = ad.read_h5ad(tmp_path / "a.h5ad")
        assert np.array_equal(again.obsm["X_pca"], adata.obsm["X_pca"])
        assert again.uns["pca"]["n_components"] == adata.uns["pca"]["n_components"]


def test_raw_counts_have_a_model_of_counts():
    adata = counts()
    scverse.pca(adata)
    assert adata.uns["pca"]["params"]["likelihood"] == "poisson"
    assert adata.obsm["X_pca"].shape[1] >= 2
    assert adata.obsm["X_pca_std"].shape == adata.obsm["X_pca"].shape
    assert adata.uns["pca"]["variance_ratio"].sum() == pytest.approx(1.0)


def test_more_components_than_are_found_can_be_kept():
    adata = annotated()
    scverse.pca(adata, min_components=5)
    assert adata.obsm["X_pca"].shape == (120, 5)
    assert np.argmax(adata.uns["pca"]["rank_posterior"]) == 3
    with pytest.raises(ValueError, match="min_components=5 cannot be used with counts"):
        scverse.pca(counts(), min_components=5)


def test_raw_counts_taken_for_numbers_are_named():
    with pytest.warns(UserWarning, match="adata.X holds raw counts"):
        scverse.pca(counts(), likelihood="normal")


def test_a_layer_without_noise():
    truth = low_rank(200, 30, 3, noise_variance=1.0, random_state=0)
    adata = ad.AnnData(truth.X)
    adata.var["highly_variable"] = np.arange(30) > 1
    scverse.denoise(adata, noise="isotropic")
    clean = adata.layers["denoised"]
    assert np.array_equal(clean[:, :2], truth.X[:, :2])
    expected = BayesianPCA(noise="isotropic").fit(truth.X[:, 2:]).denoise(truth.X[:, 2:])
    assert clean[:, 2:] == pytest.approx(expected)


def test_rates_of_counts_are_a_layer():
    adata = counts()
    scverse.denoise(adata, layer_added="rates")
    rates = adata.layers["rates"]
    assert rates.shape == adata.shape
    assert (rates > 0).all()
    assert rates.mean() == pytest.approx(adata.X.mean(), rel=0.1)


def test_noise_alone_has_no_components_and_a_warning():
    adata = ad.AnnData(np.random.default_rng(0).normal(size=(60, 20)))
    with pytest.warns(UserWarning, match="No component of adata.X is above its noise"):
        scverse.pca(adata)
    assert adata.obsm["X_pca"].shape == (60, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer": "none"}, "no layer 'none'; it has none"),
        ({"layer": "raw"}, "adata.raw is None"),
        ({"mask_var": "variable"}, "adata.var has no column 'variable'"),
        ({"mask_var": np.ones(3)}, "but there are 30 genes"),
        ({"mask_var": np.zeros(30)}, "mask_var has no gene in it"),
        ({"likelihood": "gamma"}, "likelihood must be one of"),
        ({"likelihood": "poisson", "noise": "both"}, "noise='both' cannot be used with counts"),
    ],
)
def test_mistakes_are_named(options, words):
    adata = annotated()
    with pytest.raises(ValueError, match=words):
        scverse.pca(adata, **options)
    assert "X_pca" not in adata.obsm


def test_what_is_no_annotated_data():
    with pytest.raises(TypeError, match="AnnData are needed"):
        scverse.pca(np.ones((3, 3)))
    with pytest.raises(TypeError, match=r"bayespca.scverse.pca\(adata\)"):
        BayesianPCA().fit(annotated())


def test_a_pipeline_of_scanpy_runs_on_the_result():
    """Neighbours, UMAP and Leiden run on the data that scanpy ships."""
    sc = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    adata = sc.datasets.pbmc68k_reduced()
    for key in ("X_pca", "X_umap"):
        del adata.obsm[key]
    scverse.pca(adata)
    assert 5 <= adata.uns["pca"]["n_components"] <= 30
    sc.pp.neighbors(adata)
    sc.tl.umap(adata)
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)
    assert adata.obsm["X_umap"].shape == (700, 2)
    assert 5 <= adata.obs["leiden"].nunique() <= 25


def test_raw_with_other_genes_has_no_place_in_varm_or_layers():
    adata = annotated()
    adata.raw = adata.copy()
    adata = adata[:, :20].copy()
    with pytest.warns(UserWarning, match=r"adata.raw.X has other genes than adata"):
        scverse.pca(adata, layer="raw", mask_var=None)
    assert adata.obsm["X_pca"].shape == (120, 3)
    assert "PCs" not in adata.varm
    with pytest.raises(ValueError, match="a layer must have the same"):
        scverse.denoise(adata, layer="raw", mask_var=None)


def test_raw_counts_in_dask_are_named():
    da = pytest.importorskip("dask.array")
    adata = counts()
    adata.X = da.from_array(adata.X.toarray(), chunks=(50, 40))
    with pytest.warns(UserWarning, match="adata.X holds raw counts"):
        scverse.pca(adata, likelihood="normal")


def test_holes_are_filled():
    adata = annotated()
    hidden = np.random.default_rng(0).random(adata.shape) < 0.1
    adata.X = np.where(hidden, np.nan, adata.X)
    scverse.denoise(adata, mask_var=None, noise="isotropic")
    assert np.isfinite(adata.layers["denoised"]).all()

"""Factors of several modalities: what is written to MuData, missing cells, counts, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import BayesianPCA, MultiViewPCA, scverse

ad = pytest.importorskip("anndata")
md = pytest.importorskip("mudata")


def modality(X, letter, cells=None):
    cells = np.arange(len(X)) if cells is None else cells
    obs = pd.DataFrame(index=[f"c{i}" for i in cells])
    return ad.AnnData(
        X[cells], obs, pd.DataFrame(index=[f"{letter}{j}" for j in range(X.shape[1])])
    )


def tables(n=150, seed=0):
    """Two tables with one shared factor, and one of its own each."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    genes = Z[:, [0, 1]] @ rng.normal(size=(2, 40)) + rng.normal(size=(n, 40))
    proteins = Z[:, [0, 2]] @ rng.normal(size=(2, 20)) + 0.5 * rng.normal(size=(n, 20))
    return genes, proteins


def multimodal(first=None, second=None):
    genes, proteins = tables()
    return md.MuData({"rna": modality(genes, "g", first), "prot": modality(proteins, "p", second)})


def test_it_is_multi_view_pca():
    mdata = multimodal()
    assert scverse.multiview(mdata) is None
    genes, proteins = tables()
    given = {"rna": genes, "prot": proteins}
    model = MultiViewPCA().fit(given)
    scores, std = model.transform(given, return_std=True)
    assert mdata.obsm["X_multiview"] == pytest.approx(scores, abs=1e-5)
    assert mdata.obsm["X_multiview_std"] == pytest.approx(std, abs=1e-5)
    for name in given:
        assert mdata[name].varm["multiview"] == pytest.approx(model.components_[name].T, abs=1e-5)
    about = mdata.uns["multiview"]
    assert about["n_components"] == 3
    assert list(about["active"].columns) == ["rna", "prot"]
    assert about["active"].to_numpy().sum(axis=0).tolist() == [2, 2]
    assert np.array_equal(about["active"], model.active_)
    assert about["active_probability"].to_numpy() == pytest.approx(model.active_probability_)
    assert about["variance_ratio"].to_numpy() == pytest.approx(model.explained_variance_ratio_)
    assert about["noise_variance"]["prot"] == pytest.approx(0.25, rel=0.1)
    assert about["likelihoods"] == {"rna": "normal", "prot": "normal"}
    assert about["params"] == {"mask_var": "highly_variable", "noise": "auto"}


def test_cells_that_a_modality_lacks_have_scores_from_the_other():
    """Cells keep the order of mdata, whatever their order in its modalities."""
    whole = scverse.multiview(multimodal(), copy=True)
    mdata = multimodal(np.arange(149, 19, -1), np.arange(120))
    scverse.multiview(mdata)
    assert mdata.uns["multiview"]["n_components"] == 3
    scores = pd.DataFrame(mdata.obsm["X_multiview"], mdata.obs_names)
    same = pd.DataFrame(whole.obsm["X_multiview"], whole.obs_names).loc[mdata.obs_names]
    both = [f"c{i}" for i in range(20, 120)]
    likeness = np.corrcoef(scores.loc[both].T, same.loc[both].T)[:3, 3:]
    assert (np.abs(likeness).max(axis=1) > 0.99).all()
    std = pd.DataFrame(mdata.obsm["X_multiview_std"], mdata.obs_names)
    # A factor that only proteins carry is unknown for cells without proteins.
    own = int(np.flatnonzero(~mdata.uns["multiview"]["active"]["rna"])[0])
    assert std.loc["c140", own] == pytest.approx(1.0, abs=0.1)
    assert std.loc["c50", own] < 0.3


def test_genes_layers_and_keys_by_modality():
    mdata = multimodal()
    mdata["rna"].var["highly_variable"] = np.arange(40) < 25
    mdata["prot"].layers["twice"] = 2 * mdata["prot"].X
    copied = scverse.multiview(mdata, layer={"prot": "twice"}, key_added="mv", copy=True)
    assert not len(mdata["rna"].varm)
    assert not copied["rna"].varm["mv"][25:].any()
    plain = scverse.multiview(mdata, mask_var={"rna": None}, copy=True)
    assert plain["rna"].varm["multiview"].any(axis=1).all()
    assert copied.uns["mv"]["noise_variance"]["prot"] == pytest.approx(
        4 * plain.uns["multiview"]["noise_variance"]["prot"], rel=0.05
    )
    assert copied.uns["mv"]["params"]["layer"] == {"prot": "twice"}


def test_results_can_be_written_and_scanpy_goes_on(tmp_path):
    sc = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    mdata = multimodal(np.arange(20, 150), np.arange(120))
    scverse.multiview(mdata)
    mdata.write(tmp_path / "a.h5mu")
    again = md.read(tmp_path / "a.h5mu")
    assert np.array_equal(again.obsm["X_multiview"], mdata.obsm["X_multiview"])
    pd.testing.assert_frame_equal(
        again.uns["multiview"]["active"], mdata.uns["multiview"]["active"]
    )
    sc.pp.neighbors(again, use_rep="X_multiview")
    sc.tl.leiden(again, flavor="igraph", n_iterations=2)
    assert again.obs["leiden"].notna().all()


def counted(seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(150, 1))
    counts = rng.poisson(np.exp(0.6 * Z @ rng.normal(size=(1, 30)) + 0.7)).astype(np.float64)
    numbers = Z @ rng.normal(size=(1, 20)) + rng.normal(size=(150, 20))
    return md.MuData({"rna": modality(counts, "g"), "prot": modality(numbers, "p")})


def test_raw_counts_have_rates_and_a_warning():
    mdata = counted()
    with pytest.warns(UserWarning, match=r"mdata\['rna'\].X holds raw counts and gets a Poisson"):
        scverse.multiview(mdata)
    about = mdata.uns["multiview"]
    assert about["likelihoods"] == {"rna": "poisson", "prot": "normal"}
    assert about["active"].to_numpy().tolist() == [[True, True]]
    again = scverse.multiview(mdata, likelihood={"rna": "poisson"}, copy=True)
    assert np.array_equal(again.obsm["X_multiview"], mdata.obsm["X_multiview"])
    with pytest.warns(UserWarning, match=r"mdata\['rna'\].X holds raw counts, whose noise grows"):
        scverse.multiview(mdata, likelihood="normal")


def test_raw_with_other_genes_has_no_place_in_varm():
    genes, proteins = tables()
    rna = modality(genes, "g")
    rna.raw = rna.copy()
    mdata = md.MuData({"rna": rna[:, :20].copy(), "prot": modality(proteins, "p")})
    with pytest.warns(UserWarning, match=r"mdata\['rna'\].raw.X has other genes than its modality"):
        scverse.multiview(mdata, layer={"rna": "raw"})
    assert "multiview" not in mdata["rna"].varm
    assert mdata["prot"].varm["multiview"].shape == (20, 3)


def test_noise_alone_has_no_factors():
    rng = np.random.default_rng(0)
    parts = {name: modality(rng.normal(size=(60, 15)), name) for name in "ab"}
    mdata = md.MuData(parts)
    with pytest.warns(UserWarning, match="Nothing in mdata is above its noise"):
        scverse.multiview(mdata)
    assert mdata.obsm["X_multiview"].shape == (60, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer": "none"}, r"mdata\['rna'\] has no layer 'none'"),
        ({"mask_var": {"atac": None}}, "mask_var names the modality 'atac', but mdata has 'rna'"),
        ({"mask_var": "variable"}, r"mdata\['rna'\].var has no column"),
        ({"likelihood": {"rna": "gamma"}}, r"likelihood of mdata\['rna'\].X must be one of"),
        ({"noise": "rows"}, "noise"),
    ],
)
def test_mistakes_are_named(options, words):
    mdata = multimodal()
    with pytest.raises(ValueError, match=words):
        scverse.multiview(mdata, **options)
    assert "X_multiview" not in mdata.obsm


def test_what_is_no_multimodal_data():
    genes, _ = tables()
    with pytest.raises(TypeError, match="MuData are needed"):
        scverse.multiview(modality(genes, "g"))
    with pytest.raises(TypeError, match=r"bayespca.scverse.multiview\(mdata\)"):
        scverse.pca(multimodal())
    with pytest.raises(TypeError, match=r"X is a MuData: call bayespca.scverse.multiview\(mdata\)"):
        BayesianPCA().fit(multimodal())
    with pytest.raises(ValueError, match="mdata has no modalities"):
        scverse.multiview(md.MuData({}))
    first, second = modality(genes, "g", np.arange(50)), modality(genes, "g", np.arange(50, 150))
    by_genes = md.MuData({"a": first, "b": second}, axis=1)
    with pytest.raises(ValueError, match="share genes, not cells"):
        scverse.multiview(by_genes)
    stale = multimodal()
    stale.mod["rna"] = stale["rna"][:50].copy()
    stale.mod["prot"] = stale["prot"][:50].copy()
    with pytest.raises(ValueError, match=r"call mdata.update\(\) first"):
        scverse.multiview(stale)

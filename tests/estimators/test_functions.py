"""evbmf, vbmf, denoise and rank_report."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from bayespca import BayesianPCA, denoise, evbmf, rank_report, tensor_ranks, vbmf
from bayespca.datasets import low_rank, noisy
from bayespca.estimators import summarize
from bayespca.estimators.wording import in_brief, kept
from bayespca.spectrum import Spectrum, screenot
from oracles.free_energy import Component, free_energy


@pytest.mark.parametrize("shape", [(30, 200), (200, 30), (50, 50)])
@pytest.mark.parametrize("factorize", [evbmf, lambda Y, **k: vbmf(Y, 1.0, **k)])
def test_factors_and_posterior(factorize, shape):
    Y = low_rank(*shape, 3, random_state=0).X
    U, S, V, post = factorize(Y, sigma2=1.0)
    k = S.shape[0]
    assert k >= 3
    assert (U.shape, S.shape, V.shape) == ((shape[0], k), (k, k), (shape[1], k))
    for Q in (U, V):
        assert Q.T @ Q == pytest.approx(np.eye(k), abs=1e-9)
    assert np.diag(S) == pytest.approx(post["ma"] * post["mb"])
    assert np.count_nonzero(S) == k
    left, gamma, right = np.linalg.svd(Y, full_matrices=False)
    low = (left[:, :k] * np.diag(S)) @ right[:k]
    assert U @ S @ V.T == pytest.approx(low, abs=1e-8)
    assert np.all(np.diag(S) < gamma[:k])


def test_post_gives_the_free_energy():
    """F is Eq. 16–17 of aistats2014 at the moments in `post`."""
    Y = low_rank(30, 100, 3, random_state=0).X
    _, S, _, post = evbmf(Y)
    gamma = np.linalg.svd(Y, compute_uv=False)[: S.shape[0]]
    components = [
        Component(*row, c, c)
        for *row, c in zip(
            post["ma"], post["mb"], post["sa2"], post["sb2"], post["cacb"], strict=True
        )
    ]
    expected = free_energy(components, gamma, (Y**2).sum(), post["sigma2"], *Y.shape)
    assert post["F"] == pytest.approx(expected, rel=1e-10)


def test_transposing_transposes_the_answer():
    Y = low_rank(30, 100, 3, random_state=0).X
    U, S, V, post = evbmf(Y)
    Vt, St, Ut, post_t = evbmf(Y.T)
    assert np.diag(S) == pytest.approx(np.diag(St))
    assert post["sigma2"] == pytest.approx(post_t["sigma2"])
    assert np.abs(U.T @ Ut) == pytest.approx(np.eye(3), abs=1e-8)
    assert np.abs(V.T @ Vt) == pytest.approx(np.eye(3), abs=1e-8)
    assert post["ma"] == pytest.approx(post_t["mb"])


def test_rank_zero_and_caps():
    noise = np.random.default_rng(0).normal(size=(20, 80))
    U, S, V, post = evbmf(noise)
    assert (U.shape, S.shape, V.shape) == ((20, 0), (0, 0), (80, 0))
    assert post["sigma2"] == pytest.approx(1.0, rel=0.1)
    Y = low_rank(100, 200, 20, random_state=0).X
    for H in (1, 5, 10, 50):
        assert evbmf(Y, H=H)[1].shape == (min(H, 20),) * 2


@pytest.mark.parametrize("bad", [np.full((3, 4), np.nan), np.zeros(5)])
def test_bad_matrices(bad):
    with pytest.raises(ValueError, match=r"NaN|2D"):
        evbmf(bad)


def test_bad_prior():
    with pytest.raises(ValueError, match="cacb must be positive"):
        vbmf(np.eye(3), 0.0)


def test_denoise():
    truth = low_rank(200, 30, 3, mean=2.0, random_state=0)
    clean = denoise(truth.X)
    assert clean == pytest.approx(BayesianPCA().fit(truth.X).denoise(truth.X))
    error = np.square(clean - truth.signal).mean()
    assert error < 0.2 * np.square(truth.X - truth.signal).mean()
    assert denoise(truth.X, method="ml", n_components=1).shape == truth.X.shape


def test_rank_report():
    truth = low_rank(300, 40, 4, random_state=0)
    report = rank_report(truth.X)
    assert set(report.ranks().values()) == {4}
    model = BayesianPCA().fit(truth.X)
    assert report.probabilities == summarize(model).rank_probabilities
    assert str(report).startswith(kept(model.n_components_, in_brief(4, model.rank_posterior_)))
    assert report.noise_variance == pytest.approx(1.0, rel=0.1)
    text = str(report)
    for rule in ("EVB", "Minka", "Marchenko–Pastur", "Gavish–Donoho", "parallel analysis"):
        assert rule in text
    assert rank_report(truth.X, random_state=1) == rank_report(truth.X, random_state=1)
    X = truth.X * np.geomspace(1, 100, 40)
    equal = BayesianPCA(scale=True, noise="isotropic").fit(X)
    assert rank_report(X, scale=True).evb == equal.n_components_


def test_rank_report_under_each_noise():
    X = noisy("both", 200, 30, 2, random_state=0).X
    report = rank_report(X)
    assert (report.noise, report.noise_models["both"]) == ("both", 2)
    assert report.evb > 5
    assert report.noise_models["isotropic"] == report.evb
    assert report.ranks()["EVB, both"] == 2
    assert report.screenot == screenot(spectrum_of(X))
    assert "count differences in noise as components" in report.why
    assert report.why in str(report)


def spectrum_of(X):
    gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return Spectrum(gamma, (X.shape[1], len(X) - 1))


def test_rank_report_with_holes():
    X = noisy("columns", 150, 20, 2, random_state=0).X
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    report = rank_report(X)
    assert report.minka is None
    plain = BayesianPCA(noise="isotropic").fit(X)
    assert report.evb == plain.n_components_
    assert report.n_components == BayesianPCA().fit(X).n_components_
    assert report.noise_models[report.noise] == 2
    noises = {f"EVB, {name}" for name in ("per-feature", "per-sample", "both")}
    rules = {"kept by default", "EVB", "sign flips"}
    assert set(report.ranks()) == rules | noises
    rules = ("Minka", "Marchenko", "Gavish", "ScreeNOT", "parallel", "cross-validation", "half")
    assert all(rule in report.not_asked for rule in rules)
    assert report.not_asked in str(report)
    assert not rank_report(np.nan_to_num(X)).not_asked
    with pytest.raises(ValueError, match="no value at all"):
        rank_report(np.full((4, 3), np.nan))


@pytest.mark.parametrize("scale", [False, True])
def test_sign_flips_of_data_with_holes(scale):
    X = low_rank(60, 40, 3, mean=5.0, random_state=0).X
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    assert rank_report(X, scale=scale).sign_flips == 3


def test_rank_report_says_which_rules_large_and_sparse_data_lack():
    X = np.random.default_rng(0).normal(size=(40, 6))
    assert rank_report(X).not_asked == ""
    report = rank_report(sp.csr_array(X))
    assert report.sign_flips is report.bi_cross_validation is None
    assert report.not_asked.startswith("Sign flips, bi-cross-validation and other")


def test_rank_report_of_what_does_not_vary():
    report = rank_report(np.ones((6, 4)))
    assert set(report.ranks().values()) == {0}
    assert report.why == ""
    assert report.sign_flips is None


# --- rows and columns of zeros -----------------------------------------------------------------


def with_dead(X, rows, columns):
    """X with rows and columns of zeros scattered among its own, and the places of its own."""
    n, p = X.shape
    out = np.zeros((n + rows, p + columns))
    rng = np.random.default_rng(1)
    live = [np.sort(rng.permutation(a + b)[:a]) for a, b in ((n, rows), (p, columns))]
    out[np.ix_(*live)] = X
    return out, live


@pytest.mark.parametrize("shape", [(40, 0), (0, 150), (40, 150)])
@pytest.mark.parametrize("turned", [False, True])
def test_dead_channels_say_nothing_of_the_noise(shape, turned):
    """Rank, noise and matrix must be those of the nonzero part, also if transposed."""
    X = low_rank(100, 50, 3, random_state=0).X
    Y, live = with_dead(X, *shape)
    Y = Y.T if turned else Y
    U, S, V, post = evbmf(Y)
    plain = evbmf(X)
    assert S.shape == (3, 3)
    assert_allclose(post["sigma2"], plain[3]["sigma2"], rtol=1e-10)
    found = (U @ S @ V.T).T if turned else U @ S @ V.T
    assert_allclose(found[np.ix_(*live)], plain[0] @ plain[1] @ plain[2].T, atol=1e-9)
    assert_allclose(np.delete(found, live[0], axis=0), 0, atol=1e-12)
    assert vbmf(Y, 1e4)[1].shape == vbmf(X, 1e4)[1].shape
    model = BayesianPCA(center=False, noise="isotropic").fit(Y)
    assert model.n_components_ == 3
    assert_allclose(model.noise_variance_, post["sigma2"], rtol=1e-6)
    assert model.transform(Y).shape == (len(Y), 3)


def test_dead_slices_of_a_tensor_say_nothing_of_the_noise():
    rng = np.random.default_rng(0)
    kernel = np.einsum("ia,ja,kl->ijkl", *rng.normal(size=(2, 30, 4)), np.ones((3, 3)))
    kernel += 0.1 * rng.normal(size=kernel.shape)
    dead = np.zeros((90, 60, 3, 3))
    dead[::3, ::2] = kernel
    assert tensor_ranks(dead) == tensor_ranks(kernel) == (4, 4, 1, 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X: vbmf(X, 1e300), "cacb must be positive and below"),
        (lambda X: vbmf(X, "a"), "cacb must be positive and below"),
        (lambda X: vbmf(X, np.nan), "cacb must be positive and below"),
        (lambda X: evbmf(X, H=np.nan), "max_rank must be a whole number"),
        (lambda X: BayesianPCA(engine="streaming").fit(sp.csr_array(X)), "sparse matrices"),
        (lambda X: BayesianPCA(engine="dask").fit(sp.csr_matrix(X)), "sparse matrices"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(low_rank(20, 5, 1, random_state=0).X)

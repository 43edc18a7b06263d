"""BayesianPCA as users see it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespca import BayesianPCA
from bayespca.datasets import low_rank, noisy
from bayespca.estimators import RankWarning
from bayespca.spectrum import METHODS

PUBLIC = [m for m in METHODS if not m.startswith("global")]


def fitted(method="evb", n=120, p=30, rank=3, seed=0, **options):
    truth = low_rank(n, p, rank, mean=5.0, random_state=seed)
    if method == "ml":
        options.setdefault("n_components", rank)
    return truth, BayesianPCA(method, **options).fit(truth.X)


def test_a_first_fit():
    truth, model = fitted()
    assert model.n_components_ == 3
    assert model.components_.shape == (3, 30)
    assert model.noise_variance_ == pytest.approx(1.0, rel=0.1)
    assert model.rank_posterior_.shape == (31,)
    assert model.rank_posterior_.sum() == pytest.approx(1)
    assert model.rank_posterior_.argmax() == 3
    assert model.free_energy_by_rank_[3] == 0
    assert model.mean_ == pytest.approx(truth.X.mean(0))
    assert model.singular_values_[-1] > model.threshold_
    assert np.all(model.shrunk_singular_values_ < model.singular_values_)
    assert model.converged_
    assert model.engine_ == "dense"
    assert np.isfinite(model.free_energy_)
    assert model.n_samples_ == 120
    assert model.n_features_in_ == 30


def test_it_is_pca():
    """Kept components must have the directions, variances and signs of scikit-learn's."""
    truth, model = fitted()
    theirs = PCA(3).fit(truth.X)
    assert model.components_ == pytest.approx(theirs.components_, abs=1e-10)
    assert model.explained_variance_ == pytest.approx(theirs.explained_variance_)
    assert model.explained_variance_ratio_ == pytest.approx(theirs.explained_variance_ratio_)
    assert model.singular_values_ == pytest.approx(theirs.singular_values_)
    assert model.project(truth.X) == pytest.approx(theirs.transform(truth.X), abs=1e-9)


def test_ml_is_probabilistic_pca_as_in_scikit_learn():
    truth, model = fitted("ml")
    theirs = PCA(3).fit(truth.X)
    assert model.noise_variance_ == pytest.approx(theirs.noise_variance_)
    assert model.get_covariance() == pytest.approx(theirs.get_covariance())
    assert model.get_precision() == pytest.approx(theirs.get_precision())
    assert model.score_samples(truth.X) == pytest.approx(theirs.score_samples(truth.X))


@pytest.mark.parametrize("method", PUBLIC)
@pytest.mark.parametrize("whiten", [False, True])
def test_reconstruction_is_the_posterior_mean(method, whiten):
    """inverse_transform(transform(X)) = mean + Σ γ̂ₕ uₕ wₕᵀ on the training data."""
    truth, model = fitted(method, whiten=whiten)
    U, _, Wt = np.linalg.svd(truth.X - truth.X.mean(0), full_matrices=False)
    k = model.n_components_
    mean = truth.X.mean(0) + (U[:, :k] * model.shrunk_singular_values_) @ Wt[:k]
    again = model.inverse_transform(model.transform(truth.X))
    assert again == pytest.approx(mean, abs=1e-9)
    assert model.denoise(truth.X) == pytest.approx(mean, abs=1e-9)


def test_denoising_is_closer_to_the_truth_than_truncation():
    truth, model = fitted(p=60)
    theirs = PCA(3).fit(truth.X)
    ours = model.denoise(truth.X) - truth.signal
    other = theirs.inverse_transform(theirs.transform(truth.X)) - truth.signal
    assert np.square(ours).sum() < np.square(other).sum()


def test_whitened_scores_have_unit_variance():
    truth, model = fitted(n=4000, whiten=True)
    T, std = model.transform(truth.X, return_std=True)
    second_moment = (T**2 + std**2).mean(0)
    assert second_moment == pytest.approx(np.ones(3), rel=0.01)


@pytest.mark.parametrize("method", PUBLIC)
@pytest.mark.parametrize("scale", [False, True])
def test_predictive_distribution_is_consistent(method, scale):
    """Precision, density and samples must be those of the Gaussian with this covariance."""
    truth, model = fitted(method, scale=scale, n=200, p=8, rank=2)
    C = model.get_covariance()
    assert model.get_precision() @ C == pytest.approx(np.eye(8), abs=1e-8)
    z = truth.X - model.mean_
    expected = -0.5 * (
        np.einsum("ij,jk,ik->i", z, np.linalg.inv(C), z) + np.linalg.slogdet(2 * np.pi * C)[1]
    )
    assert model.score_samples(truth.X) == pytest.approx(expected)
    assert model.score(truth.X) == pytest.approx(expected.mean())
    drawn = model.sample(200_000, random_state=0)
    assert np.cov(drawn.T) == pytest.approx(C, abs=0.03 * np.abs(C).max())
    assert drawn.mean(0) == pytest.approx(model.mean_, abs=0.03 * np.sqrt(np.abs(C).max()))


def test_predictive_density_is_calibrated_against_the_truth():
    """New rows must have a log density between that of PCA and that of their true distribution."""
    truth = low_rank(150, 40, 3, random_state=0)
    new = low_rank(150, 40, 3, random_state=0)
    rng = np.random.default_rng(9)
    X = (rng.normal(size=(2000, 3)) * (truth.scores.std(0))) @ truth.components
    X += rng.normal(size=X.shape)
    C = truth.components.T @ np.diag(truth.scores.var(0)) @ truth.components + np.eye(40)
    distance = np.einsum("ij,jk,ik->i", X, np.linalg.inv(C), X)
    best = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * C)[1])
    ours = BayesianPCA().fit(new.X).score(X)
    ordinary = PCA(3).fit(new.X).score(X)
    assert ordinary < ours < best.mean()


@pytest.mark.parametrize("shape", [(150, 40), (40, 150)])
def test_intervals_cover_95_percent(shape):
    """Intervals of scores along the found components, and of population axes, cover 93–97 %."""
    (n, p), limit = shape, np.sqrt(shape[1] / shape[0])
    hits_scores, hits_loadings = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        axes = np.linalg.qr(rng.normal(size=(p, 3)))[0].T
        signal = rng.normal(size=(n, 3)) * np.sqrt(np.array([40.0, 20.0, 10.0]) * limit) @ axes
        X = signal + rng.normal(size=shape)
        model = BayesianPCA(n_components="evb").fit(X)
        assert model.n_components_ == 3
        T, std = model.transform(X, return_std=True)
        W, W_std = model.components_, model.components_std_
        truth = (signal - model.mean_) @ W.T
        hits_scores.append(np.mean(np.abs(T - truth) < 1.959964 * std))
        signs = np.sign(np.sum(W * axes, axis=1))[:, None]
        hits_loadings.append(np.mean(np.abs(W - signs * axes) < 1.959964 * W_std))
    assert 0.93 <= np.mean(hits_scores) <= 0.97
    assert 0.93 <= np.mean(hits_loadings) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "p", "rank"),
    [(300, 100, 20), (500, 400, 5), (1000, 50, 10), (200, 200, 40), (300, 100, 0)],
)
def test_rank_recovery(n, p, rank):
    """EVB's rank must be exactly right for at least 99 of 100 seeds."""
    hits = sum(
        BayesianPCA(n_components="evb").fit(low_rank(n, p, rank, random_state=seed).X).n_components_
        == rank
        for seed in range(100)
    )
    assert hits >= 99


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p", "rank"), [(1000, 50, 10), (300, 100, 0)])
def test_components_that_are_kept_are_there_as_often_as_promised(n, p, rank):
    """One too many is kept in a few of 100 tables, and where it is, P(so many) is 75 % or more."""
    more = 0
    for seed in range(100):
        model = BayesianPCA().fit(low_rank(n, p, rank, random_state=seed).X)
        kept, known = model.n_components_, model.rank_posterior_
        assert known[kept:].sum() >= 0.75 > known[kept + 1 :].sum()
        assert rank <= kept <= rank + 1
        more += kept > rank
    assert more <= 5


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", PUBLIC)
def test_n_components_caps_the_rank(method):
    _, model = fitted(method, n_components=2)
    assert model.n_components_ == 2


def test_rank_zero_is_legal_everywhere():
    X = np.random.default_rng(0).normal(size=(200, 20))
    model = BayesianPCA().fit(X)
    assert model.n_components_ == 0
    assert model.transform(X).shape == (200, 0)
    assert model.inverse_transform(model.transform(X)) == pytest.approx(
        np.tile(X.mean(0), (200, 1))
    )
    assert model.get_covariance() == pytest.approx(model.noise_variance_ * np.eye(20))
    assert np.isfinite(model.score(X))
    assert model.sample(5).shape == (5, 20)
    assert model.components_std_.shape == (0, 20)
    assert list(model.get_feature_names_out()) == []


def test_scale_is_pca_of_correlations():
    truth = low_rank(300, 12, 2, random_state=1)
    X = truth.X * np.geomspace(1e-3, 1e3, 12) + 50
    model = BayesianPCA(scale=True).fit(X)
    z = StandardScaler().fit_transform(X) * np.sqrt(299 / 300)
    theirs = BayesianPCA().fit(z)
    assert model.n_components_ == theirs.n_components_
    assert model.components_ == pytest.approx(theirs.components_, abs=1e-8)
    assert model.noise_variance_ == pytest.approx(theirs.noise_variance_)
    again = model.inverse_transform(model.transform(X))
    assert np.square((again - X) / X.std(0)).mean() < 1
    jacobian = 299 * np.log(X.std(0, ddof=1)).sum()
    assert model.free_energy_ == pytest.approx(theirs.free_energy_ + jacobian)


def test_without_centring_an_offset_is_a_component():
    truth = low_rank(200, 10, 2, random_state=0)
    assert BayesianPCA(center=False).fit(truth.X + 30).n_components_ == 3
    assert BayesianPCA().fit(truth.X + 30).n_components_ == 2


def test_adding_constants_to_columns_changes_nothing():
    truth = low_rank(200, 10, 2, random_state=0)
    base = BayesianPCA().fit(truth.X)
    moved = BayesianPCA().fit(truth.X + 1e6 * np.arange(10))
    assert moved.n_components_ == base.n_components_
    assert moved.noise_variance_ == pytest.approx(base.noise_variance_, rel=1e-6)
    assert moved.transform(truth.X + 1e6 * np.arange(10)) == pytest.approx(
        base.transform(truth.X), abs=1e-6
    )


@pytest.mark.parametrize("kind", ["dense", "gram", "sparse", "streaming", "wide"])
def test_constant_columns_say_nothing_about_the_noise(kind):
    """Counted as noise-free features, they would drive the noise to zero and keep everything."""
    truth = low_rank(*((40, 90) if kind == "wide" else (300, 20)), 3, random_state=0)
    plain = BayesianPCA().fit(truth.X)
    n = len(truth.X)
    X = np.hstack([np.zeros((n, 1)), truth.X, np.full((n, 1), 0.1), np.full((n, 1), -7e3)])
    engine = "auto" if kind in ("wide", "sparse", "streaming") else kind
    data = {"sparse": sp.csr_array(X), "streaming": iter(np.array_split(X, 3))}.get(kind, X)
    model = BayesianPCA(engine=engine).fit(data)
    assert model.n_components_ == plain.n_components_ == 3
    assert model.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-9)
    assert model.components_[:, 1:-2] == pytest.approx(plain.components_, abs=1e-8)
    assert not model.components_[:, [0, -2, -1]].any()
    assert model.mean_[[0, -2, -1]] == pytest.approx([0.0, 0.1, -7e3])
    assert model.denoise(X)[:, [0, -2, -1]] == pytest.approx(X[:, [0, -2, -1]])


def test_noise_variance_given_and_0db():
    truth, model = fitted(noise_variance=1.5)
    assert model.noise_variance_ == 1.5
    centred = truth.X - truth.X.mean(0)
    zero_db = BayesianPCA(noise_variance="0db").fit(truth.X)
    assert zero_db.noise_variance_ == pytest.approx((centred**2).sum() / (2 * 30 * 119))


@pytest.mark.parametrize("center", [True, False])
def test_0db_counts_columns_that_do_not_vary(center):
    X = np.insert(fitted()[0].X, [0, 7, 30], 0.0, axis=1)
    centred = X - X.mean(0) * center
    model = BayesianPCA(center=center, noise_variance="0db").fit(X)
    wanted = (centred**2).sum() / (2 * 33 * (119 if center else 120))
    assert model.noise_variance_ == pytest.approx(wanted)
    in_blocks = BayesianPCA(center=center, noise_variance="0db")
    for block in (X[:50], X[50:]):
        in_blocks.partial_fit(block)
    assert in_blocks.noise_variance_ == pytest.approx(wanted)
    X[3, 5] = np.nan
    holes = BayesianPCA(center=center, noise_variance="0db").fit(X)
    assert holes.noise_variance_ == pytest.approx(wanted, rel=0.01)


def test_optical_digits_at_0db(load_data):
    """aistats2014 Table 1 has 10, 10 and 6 for EVB, EPB and EMAP on the raw data."""
    X = load_data("optdigits")["X"].astype(float)
    methods = ("evb", "epb", "emap")
    found = [BayesianPCA(m, center=False, noise_variance="0db").fit(X) for m in methods]
    assert [model.n_components_ for model in found] == [10, 10, 6]


class TestPerFeature:
    rng = np.random.default_rng(0)
    psi = np.geomspace(0.05, 20, 25)
    W = rng.normal(size=(3, 25)) * 2
    X = rng.normal(size=(2000, 3)) @ W + rng.normal(size=(2000, 25)) * np.sqrt(psi)

    def test_it_finds_each_features_noise(self):
        model = BayesianPCA(noise="per-feature").fit(self.X)
        assert model.n_components_ == 3
        assert model.converged_
        assert model.n_iter_ > 1
        assert model.feature_noise_variance_ == pytest.approx(self.psi, rel=0.2)
        assert model.noise_variance_ == pytest.approx(model.feature_noise_variance_.mean())
        C = self.W.T @ self.W + np.diag(self.psi)
        assert model.get_covariance() == pytest.approx(C, abs=0.1 * np.abs(C).max())

    def test_it_explains_the_data_better_than_one_noise(self):
        ours = BayesianPCA(noise="per-feature").fit(self.X)
        with pytest.warns(RankWarning, match="nearly as many"):
            other = BayesianPCA(noise="isotropic").fit(self.X)
        assert (other.n_components_, other.rank_posterior_) == (22, None)
        assert ours.free_energy_ < other.free_energy_
        assert ours.score(self.X) > other.score(self.X)
        chosen = BayesianPCA().fit(self.X)
        assert chosen.noise_ == "per-feature"
        assert chosen.noise_evidence_["per-feature"] > 1000
        assert chosen.get_covariance() == pytest.approx(ours.get_covariance(), rel=1e-9)

    def test_wide_data(self):
        model = BayesianPCA(noise="per-feature", max_iter=50, tol=1e-6).fit(self.X[:20])
        assert model.feature_noise_variance_.shape == (25,)
        assert np.all(model.feature_noise_variance_ > 0)

    def test_units_of_features(self):
        """Units change nothing with scale=True. Without it they change little: the prior of the
        noise variances becomes wider.
        """
        units = np.geomspace(1e-3, 1e3, 25)
        for scale, rel in ((True, 1e-6), (False, 0.05)):
            options = {"noise": "per-feature", "scale": scale}
            plain = BayesianPCA(**options).fit(self.X)
            other = BayesianPCA(**options).fit(self.X * units)
            assert plain.n_components_ == other.n_components_ == 3
            noise = plain.feature_noise_variance_ * units**2
            assert other.feature_noise_variance_ == pytest.approx(noise, rel=rel)

    def test_engines_agree(self):
        plain = BayesianPCA(noise="per-feature").fit(self.X)
        for engine in ("dense", "gram"):
            other = BayesianPCA(noise="per-feature", engine=engine).fit(self.X)
            assert other.engine_ == engine
            assert other.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-6)
            assert other.feature_noise_variance_ == pytest.approx(
                plain.feature_noise_variance_, rel=1e-3
            )

    def test_methods_that_cannot(self):
        for method, options in [("epb", {}), ("laplace", {}), ("vb", {})]:
            with pytest.raises(ValueError, match="per-feature"):
                BayesianPCA(method, noise="per-feature", **options).fit(self.X)
        with pytest.raises(ValueError, match="leave noise_variance at"):
            BayesianPCA(noise="per-feature", noise_variance=1.0).fit(self.X)
        model = BayesianPCA("vb", prior_variance=1.0, noise="per-feature").fit(self.X)
        assert model.converged_
        assert np.all(model.feature_noise_variance_ > 0)

    def test_maximum_likelihood_is_factor_analysis(self):
        model = BayesianPCA("ml", n_components=3, noise="per-feature", tol=1e-12).fit(self.X)
        theirs = FactorAnalysis(3, tol=1e-10, max_iter=5000, svd_method="lapack").fit(self.X)
        scale = 1999 / 2000  # we divide by n − 1
        assert model.feature_noise_variance_ * scale == pytest.approx(
            theirs.noise_variance_, rel=1e-3
        )

    # After two steps the fit may still take most directions for components.
    @pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")
    def test_it_warns_when_it_stops_early(self):
        with pytest.warns(UserWarning, match="raise max_iter"):
            model = BayesianPCA(n_components="evb", noise="per-feature", max_iter=2).fit(self.X)
        assert not model.converged_
        assert np.isfinite(model.score(self.X))


def test_partial_fit_is_fit():
    truth = low_rank(500, 20, 3, mean=10.0, random_state=0)
    model = BayesianPCA()
    for block in np.array_split(truth.X, 7):
        model.partial_fit(block)
    whole = BayesianPCA().fit(truth.X)
    assert model.n_components_ == whole.n_components_
    assert model.n_samples_ == 500
    assert model.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-9)
    assert model.components_ == pytest.approx(whole.components_, abs=1e-8)
    assert model.mean_ == pytest.approx(whole.mean_)
    model.fit(truth.X[:100])
    assert model.n_samples_ == 100
    model.partial_fit(truth.X[:50])
    assert model.n_samples_ == 50, "fit forgets the blocks that came before"


def test_a_failed_partial_fit_keeps_what_was_there():
    truth = low_rank(100, 6, 2, random_state=0)
    model = BayesianPCA().partial_fit(truth.X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(truth.X[:, :5])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((3, 6), np.nan))
    assert model.n_samples_ == 100
    assert model.partial_fit(truth.X).n_samples_ == 200


@pytest.mark.parametrize("noise", ["auto", "isotropic"])
@pytest.mark.parametrize("how", ["fit", "fit_transform", "partial_fit"])
def test_a_rank_near_the_bound_is_said_once_with_what_to_do(how, noise):
    rng = np.random.default_rng(0)
    X = 10 * rng.normal(size=(200, 4)) @ rng.normal(size=(4, 6)) + rng.normal(size=(200, 6))
    model = BayesianPCA(noise=noise)
    with pytest.warns(RankWarning) as told:
        getattr(model, how)(X)
    (said,) = (str(one.message) for one in told if "nearly as many" in str(one.message))
    assert "More samples help most; otherwise leave out features" in said
    assert sum(one.text == said for one in model.status_.advice) == 1


def test_noise_of_columns_is_no_component_near_the_bound():
    X = np.random.default_rng(0).normal(size=(3000, 6)) * [32, 16, 8, 4, 2, 1]
    with pytest.warns(RankWarning, match=r"nearly as many as .* \(5 at most\)"):
        equal = BayesianPCA(noise="isotropic").fit(X)
    assert equal.rank_posterior_ is None
    assert "more cannot be told apart from deviations from the model" in str(equal.status_)
    model = BayesianPCA().fit(X)
    assert (model.noise_, model.n_components_) == ("per-feature", 0)


def test_verbose_prints_a_line(capsys):
    fitted(verbose=True)
    out = capsys.readouterr().out
    assert "rank 3" in out
    assert "engine dense" in out


# --- kinds of input ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, bool])
def test_dtypes(dtype):
    X = (low_rank(200, 10, 2, random_state=0).X * 3).astype(dtype)
    model = BayesianPCA().fit(X)
    expected = np.float32 if dtype == np.float32 else np.float64
    for name in ("components_", "mean_", "singular_values_", "explained_variance_"):
        assert getattr(model, name).dtype == expected
    assert model.transform(X).dtype == expected
    assert model.inverse_transform(model.transform(X)).dtype == expected
    assert model.sample(3).dtype == expected


def test_data_frames_and_output_containers():
    X = low_rank(100, 5, 2, random_state=0).X
    names = [f"gene {i}" for i in range(5)]
    frame = pd.DataFrame(X, columns=names)
    model = BayesianPCA().fit(frame)
    assert list(model.feature_names_in_) == names
    assert list(model.get_feature_names_out()) == ["bayesianpca0", "bayesianpca1"]
    as_pandas = model.set_output(transform="pandas").transform(frame)
    assert list(as_pandas.columns) == ["bayesianpca0", "bayesianpca1"]
    as_polars = model.set_output(transform="polars").transform(frame)
    assert isinstance(as_polars, pl.DataFrame)
    assert as_polars.to_numpy() == pytest.approx(as_pandas.to_numpy())
    same = BayesianPCA().fit(pl.DataFrame(X, schema=names))
    # The two libraries lay out memory differently, so sums are rounded differently.
    assert same.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-14)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[names[::-1]])


def test_sparse():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((300, 20)) * (rng.random((300, 20)) < 0.2))
    model, dense = (BayesianPCA(noise="isotropic").fit(Y) for Y in (X, X.toarray()))
    assert model.engine_ == "sparse"
    assert model.n_components_ == dense.n_components_
    assert model.noise_variance_ == pytest.approx(dense.noise_variance_)
    assert model.transform(X) == pytest.approx(dense.transform(X.toarray()), abs=1e-9)
    for noise in ("isotropic", "auto"):
        scaled, dense = (BayesianPCA(scale=True, noise=noise).fit(Y) for Y in (X, X.toarray()))
        assert scaled.noise_ == dense.noise_
        assert scaled.noise_variance_ == pytest.approx(dense.noise_variance_)


def test_files_memory_maps_and_blocks(tmp_path):
    X = low_rank(500, 12, 3, mean=4.0, random_state=0).X
    np.save(tmp_path / "x.npy", X)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    whole = BayesianPCA().fit(X)
    for source in (
        str(tmp_path / "x.npy"),
        tmp_path / "x.parquet",
        tmp_path / "x.csv",
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        iter(np.array_split(X, 5)),
    ):
        model = BayesianPCA(engine="streaming").fit(source)
        assert model.engine_ == "streaming"
        assert model.n_components_ == 3
        assert model.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-9)
        assert model.components_ == pytest.approx(whole.components_, abs=1e-7)
    assert list(BayesianPCA().fit(tmp_path / "x.csv").feature_names_in_)[:2] == ["c0", "c1"]
    scaled = BayesianPCA(scale=True).fit(tmp_path / "x.npy")
    assert scaled.noise_variance_ == pytest.approx(
        BayesianPCA(scale=True).fit(X).noise_variance_, rel=1e-9
    )


# --- scikit-learn's habits ---------------------------------------------------------------------


def test_pipelines_grid_search_cloning_and_pickling():
    truth, model = fitted()
    y = truth.scores[:, 0]
    pipe = make_pipeline(StandardScaler(), BayesianPCA(), LinearRegression()).fit(truth.X, y)
    assert pipe.score(truth.X, y) > 0.9
    search = GridSearchCV(BayesianPCA("ml"), {"n_components": [1, 3, 8]}, cv=3).fit(truth.X)
    assert search.best_params_ == {"n_components": 3}
    again = pickle.loads(pickle.dumps(model))
    assert again.transform(truth.X) == pytest.approx(model.transform(truth.X))
    assert not hasattr(clone(model), "components_")
    assert clone(model).get_params() == model.get_params()


def test_interrupting_a_fit_leaves_the_estimator_as_it_was(monkeypatch):
    truth = low_rank(100, 6, 2, random_state=0)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    model = BayesianPCA()
    with monkeypatch.context() as patch:
        patch.setattr("bayespca.linear.fit.from_decomposition", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(truth.X)
    assert vars(model) == vars(BayesianPCA())
    with pytest.raises(NotFittedError):
        model.transform(truth.X)
    model.fit(truth.X)
    before = dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr("bayespca.linear.fit.from_decomposition", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(truth.X[:, :4])
    assert vars(model) == before


def test_seeds_change_nothing_in_closed_form():
    truth = low_rank(200, 30, 3, random_state=0)
    first, second = (BayesianPCA(random_state=s).fit(truth.X) for s in (0, 1))
    assert np.array_equal(first.components_, second.components_)
    assert first.free_energy_ == second.free_energy_


# --- bad input ---------------------------------------------------------------------------------

X = low_rank(50, 6, 2, random_state=0).X


def with_value(value):
    bad = X.copy()
    bad[7, 3] = value
    return bad


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.full((5, 3), np.nan), "no value at all"),
        (sp.csr_array(with_value(np.nan)), "NaN, first at column 3"),
        (with_value(np.inf), "infinity, first at row 7, column 3"),
        (sp.csr_array(with_value(np.inf)), "infinity, first at column 3"),
        (np.array([["a", "b"], ["c", "d"]]), "X has 'a' in row 0, column 0"),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros(5), "Expected 2D array"),
        (X + 1j, "Complex data not supported"),
    ],
)
@pytest.mark.parametrize("center", [True, False])
def test_bad_data(bad, sentence, center):
    if not center and "value" in sentence:
        sentence = "contains NaN|no value at all"
    model = BayesianPCA(center=center)
    with pytest.raises(ValueError, match=sentence):
        model.fit(bad)
    assert vars(model) == vars(BayesianPCA(center=center))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "method must be one of 'evb'"),
        ({"n_components": -1}, "n_components must be 'auto', 'evb', 'mle'"),
        ({"n_components": 1.5}, "n_components must be 'auto', 'evb', 'mle'"),
        ({"method": "ml"}, "needs the number of components"),
        ({"noise_variance": -1.0}, "noise_variance must be positive"),
        ({"prior_variance": 1.0}, "does not take prior_variance"),
        ({"noise": "loud"}, "noise must be one of 'auto', 'isotropic', 'per-feature'"),
        ({"solver": "magic"}, "solver must be one of"),
        ({"engine": "steam"}, "engine must be one of 'auto', 'dense'"),
    ],
)
def test_bad_options(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        BayesianPCA(**options).fit(X)


def test_bad_new_data():
    model = BayesianPCA().fit(X)
    with pytest.raises(ValueError, match="6 features"):
        model.transform(X[:, :5])
    with pytest.raises(ValueError, match="infinity"):
        model.transform(with_value(np.inf))
    with pytest.raises(ValueError, match="2 columns"):
        model.inverse_transform(np.zeros((4, 3)))
    with pytest.raises(NotFittedError):
        BayesianPCA().transform(X)


def weak(strength=2.5, n=300, p=30, seed=0):
    """Data with a component that EVB drops though it can be recovered."""
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((p, p)))[0][:3]
    size = np.sqrt(np.array([8.0, 5.0, strength]) * np.sqrt(p / n))
    return rng.standard_normal((n, 3)) * size @ W + rng.standard_normal((n, p))


def test_the_most_probable_number_is_kept_by_every_engine():
    X = weak()
    evb = BayesianPCA(n_components="evb", noise="isotropic").fit(X)
    k = int(evb.rank_posterior_.argmax())
    assert k > evb.n_components_
    for engine in ("dense", "gram", "randomized", "streaming"):
        model = BayesianPCA(noise="isotropic", engine=engine).fit(X)
        assert model.n_components_ == k
        assert (model.shrunk_singular_values_ > 0).all()
        assert model.rank_posterior_ == pytest.approx(evb.rank_posterior_, abs=0.1)
    assert BayesianPCA().fit(iter([X[:100], X[100:]])).n_components_ == k
    grown = BayesianPCA()
    for block in (X[:100], X[100:]):
        grown.partial_fit(block)
    assert grown.n_components_ == k


def test_components_that_vanish_in_the_refit_are_not_kept():
    model = BayesianPCA(noise="student-cells").fit(weak(1.9, 40, 10, seed=10))
    assert model.rank_posterior_ is None
    assert "more cannot be told apart from deviations from the model" in str(model.status_)
    assert (model.shrunk_singular_values_ > 0).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "vb"}, "n_components='evb' needs method='evb'"),
        ({"solver": "iterative"}, "has a closed form: leave solver at 'auto'"),
    ],
)
def test_evbs_own_number_is_for_its_closed_form(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        BayesianPCA(n_components="evb", **options).fit(weak())


@pytest.mark.parametrize("noise", ["isotropic", "per-feature"])
def test_the_most_probable_number_with_holes(noise):
    """Components that do not vanish are kept, in the directions that complete data have."""
    X = weak(2.7)
    complete = BayesianPCA(noise=noise).fit(X)
    X[0, 0] = np.nan
    evb = BayesianPCA(n_components="evb", noise=noise).fit(X)
    model = BayesianPCA(noise=noise).fit(X)
    k = int(evb.rank_posterior_.argmax())
    assert (evb.n_components_, model.n_components_, k) == (2, 3, complete.n_components_)
    cosines = np.linalg.svd(model.components_ @ complete.components_.T, compute_uv=False)
    assert cosines == pytest.approx(np.ones(3), abs=1e-4)


@pytest.mark.parametrize("share", [0.09, 0.2])
def test_the_most_probable_number_is_kept_with_holes(share):
    """EVB's own solution with fewer components has the lower free energy."""
    X = noisy("white", 60, 20, 2, strength=0.4, random_state=2).X
    X[np.random.default_rng(1).random(X.shape) < share] = np.nan
    evb = BayesianPCA(n_components="evb", noise="isotropic").fit(X)
    found = BayesianPCA(noise="isotropic").fit(X)
    assert evb.n_components_ < found.n_components_ == int(found.rank_posterior_.argmax())
    assert found.free_energy_ > evb.free_energy_

"""Noise models, chosen by the evidence or requested, on data of every kind."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import bayespca
from bayespca import BayesianPCA
from bayespca.arrays.namespaces import to_numpy
from bayespca.datasets import low_rank, noisy
from bayespca.estimators import RankWarning
from bayespca.inference import checkpoint

NOISES = ("auto", "isotropic", "per-feature", "per-sample", "both", "autoregressive")
QUIET = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")


def torch_array(values):
    return pytest.importorskip("torch", reason="torch is not installed").asarray(values)


def of_columns(n=60, p=8):
    return low_rank(n, p, 2, random_state=0).X * np.geomspace(1, 30, p)


def of_rows(n=200, p=30):
    rng = np.random.default_rng(0)
    return low_rank(n, p, 2, random_state=0).X * np.exp(rng.normal(size=n))[:, None]


def of_neighbours(n=300, p=60, phi=0.5):
    X = np.random.default_rng(0).normal(size=(n, p))
    for j in range(1, p):
        X[:, j] += phi * X[:, j - 1]
    return X


def unfiltering(p, phi):
    """The matrix that turns white noise into autoregressive noise."""
    lower = np.eye(p) - phi * np.eye(p, k=-1)
    lower[0, 0] = np.sqrt(1 - phi**2)
    return np.linalg.inv(lower)


KINDS = {"per-feature": of_columns, "per-sample": of_rows, "autoregressive": of_neighbours}


def used(model, X):
    """Assert that methods and attributes of a fitted model work."""
    T = model.transform(X)
    assert np.isfinite(to_numpy(model.score_samples(X))).all()
    assert model.inverse_transform(T).shape == X.shape
    assert np.isfinite(to_numpy(model.get_covariance())).all()
    assert np.isfinite(to_numpy(model.get_precision())).all()
    assert model.sample(3, random_state=0).shape == (3, X.shape[1])
    assert model.feature_noise_variance_.shape == (X.shape[1],)
    assert model.sample_noise_variance_.shape == (X.shape[0],)
    assert np.isfinite(model.noise_variance_)
    assert "bayespca-card" in model._repr_html_()


# --- the choice of the noise -------------------------------------------------------------------


@pytest.mark.parametrize("noise", KINDS)
def test_the_evidence_chooses(noise, tmp_path):
    X = KINDS[noise]()
    model = BayesianPCA().fit(X)
    assert model.noise_ == noise
    assert model.noise_evidence_["isotropic"] == 0.0
    assert model.noise_evidence_[noise] == max(model.noise_evidence_.values()) > 20
    asked = BayesianPCA(noise=noise).fit(X)
    assert model.free_energy_ == pytest.approx(asked.free_energy_, rel=1e-6)
    model.save(tmp_path / "m.bpca")
    again = bayespca.load(tmp_path / "m.bpca")
    assert again.noise_evidence_ == model.noise_evidence_
    assert np.array_equal(again.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (100, 100)])
@pytest.mark.parametrize("seed", range(3))
def test_white_noise_is_white(shape, seed):
    model = BayesianPCA().fit(low_rank(*shape, 3, random_state=seed).X)
    assert model.noise_ == "isotropic"


# --- every kind of data ------------------------------------------------------------------------


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("convert", [array_api_strict.asarray, torch_array, sp.csr_array])
def test_other_arrays(noise, convert):
    X = KINDS[noise]()
    theirs, ours = BayesianPCA().fit(X), BayesianPCA().fit(convert(X))
    assert ours.noise_ == theirs.noise_ == noise
    assert ours.n_components_ == theirs.n_components_
    assert ours.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-8)
    used(ours, convert(X) if convert is not sp.csr_array else X)


@pytest.mark.parametrize("noise", KINDS)
def test_float32(noise):
    X = KINDS[noise]()
    theirs, ours = BayesianPCA().fit(X), BayesianPCA().fit(X.astype(np.float32))
    assert ours.noise_ == noise
    assert ours.components_.dtype == ours.feature_noise_variance_.dtype == np.float32
    assert ours.n_components_ == theirs.n_components_
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-3)


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("unit", [1e150, 1e-150, 1e-7])
def test_units(noise, unit):
    X = KINDS[noise]()
    plain, other = (BayesianPCA(tol=1e-12).fit(Y) for Y in (X, X * unit))
    assert other.noise_ == noise
    assert other.n_components_ == plain.n_components_
    for name in ("noise_variance_", "feature_noise_variance_", "sample_noise_variance_"):
        scaled = getattr(other, name) / unit / unit
        assert scaled == pytest.approx(getattr(plain, name), rel=1e-4)
    n, p = X.shape
    moved = other.free_energy_ - plain.free_energy_
    assert moved == pytest.approx((n - 1) * p * np.log(unit), rel=1e-6)
    last = other.trace_.noise_variance[-1] if other.trace_ else other.noise_variance_
    assert last == pytest.approx(other.noise_variance_, rel=1e-6)
    used(other, X * unit)


@QUIET
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}], ids=str)
def test_float32_whose_sums_of_squares_could_overflow(noise, options):
    X = of_columns().astype(np.float32)
    plain = BayesianPCA(noise=noise, **options).fit(X)
    other = BayesianPCA(noise=noise, **options).fit(X * np.float32(2.0**50))
    assert other.noise_ == plain.noise_
    assert other.n_components_ == plain.n_components_
    assert other.explained_variance_ratio_ == pytest.approx(
        plain.explained_variance_ratio_, rel=1e-3
    )


@QUIET
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}], ids=str)
@pytest.mark.parametrize("X", [np.full((20, 4), 3.0), np.zeros((10, 3)), np.ones((1, 5))], ids=str)
def test_constant_data(noise, options, X):
    model = BayesianPCA(noise=noise, **options).fit(X)
    if not X.any() or options != {"center": False}:
        assert model.n_components_ == 0
        assert model.noise_variance_ == 0.0
        assert not model.feature_noise_variance_.any()
        assert not model.sample_noise_variance_.any()
    assert model.transform(X).shape == (len(X), model.n_components_)


@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "autoregressive"])
@pytest.mark.parametrize("shape", [(2, 8), (3, 2), (5, 1), (60, 1), (60, 2), (60, 3)])
@QUIET
def test_tiny_data(noise, shape):
    X = of_columns()[: shape[0], : shape[1]]
    used(BayesianPCA(noise=noise).fit(X), X)


@QUIET
@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "autoregressive"])
def test_booleans_counts_and_duplicates(noise):
    rng = np.random.default_rng(0)
    flags = rng.random((100, 6)) < [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]
    counts = rng.poisson([1, 5, 20, 100], size=(100, 4))
    rows = np.repeat(of_columns()[:10], 6, axis=0)
    columns = np.column_stack([of_columns(), of_columns()])
    for X in (flags, counts, rows, columns):
        model = BayesianPCA(noise=noise).fit(X)
        assert model.transform(X).shape == (len(X), model.n_components_)
        assert np.isfinite(model.free_energy_)


def test_noise_free_data_have_equal_noise():
    rng = np.random.default_rng(0)
    for shape in ((50, 8), (8, 50)):
        X = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
        model = BayesianPCA().fit(X)
        assert (model.noise_, model.n_components_) == ("isotropic", 2)
        assert "noise-free" in model.status_


def test_features_that_do_not_vary_have_no_neighbours():
    X = of_neighbours()
    X[:, 7] = 1.0
    model = BayesianPCA().fit(X)
    assert model.noise_ != "autoregressive"
    with pytest.raises(ValueError, match="feature 7"):
        BayesianPCA(noise="autoregressive").fit(X)


def test_features_that_do_not_vary_have_no_noise():
    X = np.column_stack([of_columns(), np.ones(60)])
    model, without = BayesianPCA().fit(X), BayesianPCA().fit(X[:, :8])
    assert model.noise_ == without.noise_ == "per-feature"
    assert model.feature_noise_variance_[8] == 0.0
    assert model.noise_variance_ == pytest.approx(without.noise_variance_)


def test_verbose_says_which_noise(capsys):
    BayesianPCA(verbose=True).fit(of_columns())
    assert ", noise per-feature (+" in capsys.readouterr().out
    BayesianPCA(verbose=True, n_components=2).fit(low_rank(60, 8, 2, random_state=0).X)
    assert ", noise isotropic, " in capsys.readouterr().out


def test_a_warning_is_about_the_noise_that_was_chosen():
    """With equal noise, these data have nearly the largest possible rank."""
    X = of_columns(200, 6)
    with pytest.warns(RankWarning):
        BayesianPCA(noise="isotropic").fit(X)
    assert BayesianPCA(noise="per-feature").fit(X).n_components_ == 2


# --- read in blocks ----------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["per-feature", "autoregressive"])
@pytest.mark.parametrize("shape", [(300, 20), (15, 40)])
def test_blocks_that_are_read_once(noise, shape):
    """Sums over rows suffice for these noise models; of wide data, all rows are kept."""
    X = noisy("columns", *shape, 2, random_state=0).X
    whole = BayesianPCA(noise=noise).fit(X)
    streamed = BayesianPCA(noise=noise).fit(X[i : i + 7] for i in range(0, len(X), 7))
    assert streamed.n_components_ == whole.n_components_
    assert streamed.free_energy_ == pytest.approx(whole.free_energy_, rel=1e-9)
    assert streamed.feature_noise_variance_ == pytest.approx(
        whole.feature_noise_variance_, rel=1e-5
    )


def test_blocks_that_do_not_vary():
    streamed = BayesianPCA(noise="per-feature").fit(np.ones((5, 4)) for _ in range(3))
    assert streamed.n_components_ == 0
    assert streamed.feature_noise_variance_ == pytest.approx(np.zeros(4))


def test_rows_of_blocks_have_no_noise_of_their_own():
    with pytest.raises(ValueError, match="read a block at a time"):
        BayesianPCA(noise="both").fit(np.ones((5, 4)) for _ in range(3))


# --- holes -------------------------------------------------------------------------------------


def with_holes(X, share=0.1):
    return np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)


@pytest.mark.parametrize(
    ("kind", "better"), [("columns", "features"), ("rows", "samples"), ("white", "")]
)
def test_another_noise_would_be_better_where_cells_are_missing(kind, better):
    X = with_holes(noisy(kind, 200, 30, 2, random_state=0).X)
    status = str(BayesianPCA(noise="isotropic").fit(X).status_)
    assert ("more evidence in the rows examined" in status) == bool(better)
    assert better in status


def test_outlying_rows_with_holes_are_named():
    X = with_holes(noisy("white", 200, 20, 2, random_state=0).X)
    X[[3, 8]] += 100 * np.random.default_rng(1).normal(size=(2, 20))
    model = BayesianPCA().fit(X)
    assert model.n_components_ == 2
    assert "2 of 200 rows are outlying (3, 8, counting from 0)" in str(model.status_)


# --- interrupted while the evidence chooses ----------------------------------------------------


class BrokenOffError(Exception):
    pass


def test_a_fit_is_taken_up_that_was_broken_off_while_another_noise_was_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 20)) * np.exp(rng.normal(size=20))
    X = 2 * rng.normal(size=(200, 3)) @ rng.normal(size=(3, 20)) + noise
    X[rng.random(X.shape) < 0.1] = np.nan
    numbers = []
    whole = BayesianPCA(n_components="evb").fit(
        X, callback=lambda number, info: numbers.append(number)
    )
    assert numbers.count(1) == 2, "a second noise model is tried"
    late = len(numbers) - 1
    seen = []

    def breaking_off(number, info):
        seen.append(number)
        if len(seen) > late:
            raise BrokenOffError

    path = tmp_path / "fit.ckpt"
    with pytest.raises(BrokenOffError):
        BayesianPCA(n_components="evb", checkpoint=path).fit(X, callback=breaking_off)
    assert list(tmp_path.iterdir())
    again = []
    found = BayesianPCA(n_components="evb", checkpoint=path).fit(
        X, callback=lambda number, info: again.append(number)
    )
    assert found.free_energy_ == whole.free_energy_
    assert len(again) < len(numbers)
    assert not list(tmp_path.iterdir())


def test_a_feature_that_does_not_vary_is_named_where_neighbours_are_alike():
    rng = np.random.default_rng(0)
    E = rng.normal(size=(300, 40))
    for j in range(1, 40):
        E[:, j] = 0.7 * E[:, j - 1] + np.sqrt(1 - 0.49) * E[:, j]
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 40)) + E
    assert BayesianPCA().fit(X).noise_ == "autoregressive"
    X[:, 5] = 3.0
    found = BayesianPCA().fit(X)
    assert "Neighbouring features have correlated noise" in str(found.status_)
    assert "feature 5 (counting from 0) is constant" in str(found.status_)
    assert BayesianPCA().fit(np.delete(X, 5, axis=1)).noise_ == "autoregressive"


@pytest.mark.parametrize("holes", [False, True])
def test_the_probability_of_a_number_knows_that_variances_were_learned(holes):
    """Otherwise weak components count as noise of their rows and columns."""
    scores, plain = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        W = np.linalg.qr(rng.standard_normal((20, 20)))[0][:2]
        white = rng.standard_normal((60, 20)) + rng.standard_normal((60, 2)) * 1.3 @ W
        sizes = np.exp(0.7 * rng.standard_normal((60, 1))), np.exp(0.7 * rng.standard_normal(20))
        X = white * sizes[0] * sizes[1]
        X[0, 0] = np.nan if holes else X[0, 0]
        model = BayesianPCA(noise="both").fit(X)
        gain, found = model.fit_.noise.per_component, model.rank_posterior_
        assert 1 < gain < 2
        without = found * np.exp(-gain * np.minimum(np.arange(found.size), 10))
        scores.append(np.log(found[2]))
        plain.append(np.log(without[2] / without.sum()))
    assert np.mean(scores) > np.mean(plain) + 0.3


# --- components in terms of features -----------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@QUIET
def test_components_are_how_features_move_with_scores(noise):
    """Rows are mean + scale·T·components_, however the noise is scaled or filtered."""
    X = of_columns() + 5 * of_neighbours(60, 8, 0.8)
    model = BayesianPCA(noise=noise).fit(X)
    T = model.transform(X)
    shown = model.mean_ + model.posterior_.scale * (T @ model.components_)
    np.testing.assert_allclose(model.inverse_transform(T), shown, rtol=1e-10)
    largest = np.abs(model.components_).argmax(axis=1)
    assert (np.take_along_axis(model.components_, largest[:, None], axis=1) > 0).all()


def test_petals_grow_together_in_iris():
    """Under noise of neighbours; axes of filtered data would make petals grow long and narrow."""
    model = BayesianPCA(noise="autoregressive").fit(load_iris().data)
    first = model.components_[0] * np.asarray(model.posterior_.scale)
    assert (first[[0, 2, 3]] > 0).all()


@QUIET
def test_standard_deviations_of_components_under_noise_of_neighbours():
    """95 % intervals must cover the population's axes after the filter is undone."""
    p, held = 30, []
    back = unfiltering(p, 0.7)
    lower = np.linalg.inv(back)
    W = np.random.default_rng(0).normal(size=(2, p)) * np.array([[4.0], [2.0]])
    _, axes = np.linalg.eigh(lower @ W.T @ W @ lower.T)
    truth = (back @ axes[:, ::-1][:, :2]).T
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 2)) @ W + rng.normal(size=(120, p)) @ back.T
        model = BayesianPCA(noise="autoregressive", n_components=2).fit(X)
        signs = np.sign(np.sum(truth * model.components_, axis=1))[:, None]
        apart = model.components_ - signs * truth
        held.append(np.abs(apart) < 1.96 * model.components_std_)
    assert 0.93 < np.mean(held) < 0.97


@pytest.mark.parametrize(
    "noise", ["per-feature", "per-sample", "both", "student", "autoregressive"]
)
@pytest.mark.parametrize("cap", [2, 4])
@QUIET
def test_a_cap_that_is_not_needed_changes_nothing(noise, cap):
    """Capped fits of autoregressive noise used to end 600 nats higher at the same rank."""
    rng = np.random.default_rng(0)
    X = 4 * rng.normal(size=(120, 2)) @ rng.normal(size=(2, 30)) + of_neighbours(120, 30, 0.7)
    X = X if noise == "autoregressive" else low_rank(120, 30, 2, random_state=0).X
    free = BayesianPCA(noise=noise).fit(X)
    capped = BayesianPCA(noise=noise, n_components=cap).fit(X)
    assert free.n_components_ == capped.n_components_ == 2
    assert capped.free_energy_ == pytest.approx(free.free_energy_, rel=1e-9)
    assert capped.rank_posterior_[2] > 0.5


@pytest.mark.parametrize("noise", ["auto", "autoregressive"])
@QUIET
def test_a_cap_that_is_needed_does_not_mislead_the_noise(noise):
    """Fits without a cap find three components here; capped at two, they ended 600 nats higher."""
    W = np.random.default_rng(0).normal(size=(2, 30)) * np.array([[4.0], [2.0]])
    for seed in (7, 19):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 2)) @ W + rng.normal(size=(120, 30)) @ unfiltering(30, 0.7).T
        free = BayesianPCA(noise=noise).fit(X)
        capped = BayesianPCA(noise=noise, n_components=2).fit(X)
        assert capped.noise_ == "autoregressive"
        assert capped.n_components_ == 2
        assert capped.free_energy_ < free.free_energy_ + 50

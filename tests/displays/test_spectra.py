"""Scree plots, densities of eigenvalues, bars of ranks: what is drawn is what was found."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from bayespca.datasets import low_rank
from bayespca.displays import RankPosteriorDisplay, ScreeDisplay, SpectrumDensityDisplay
from bayespca.displays.spectra import shown_indices
from bayespca.estimators import BayesianPCA
from bayespca.spectrum import Spectrum
from bayespca.spectrum.noise_law import density, density_of_nonzero, largest_singular_value, support


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


# --- the law of noise --------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("variance", [0.3, 1.0, 40.0])
def test_mass_and_mean_of_the_density(ratio, variance):
    a, b = support(variance, ratio)

    def integral(function, power):
        # x = a + (b − a)sin²θ removes the square roots at both ends.
        def smooth(theta):
            x = a + (b - a) * np.sin(theta) ** 2
            weight = 2 * (b - a) * np.sin(theta) * np.cos(theta)
            return float(function(np.array(x), variance, ratio) * x**power * weight)

        return quad(smooth, 0, np.pi / 2)[0]

    assert integral(density, 0) == pytest.approx(min(1, 1 / ratio))
    assert integral(density_of_nonzero, 0) == pytest.approx(1)
    # The mean of all L eigenvalues, zeros included, is the noise variance.
    assert integral(density, 1) == pytest.approx(variance)


def test_density_outside_its_support():
    a, b = support(2.0, 0.25)
    assert (a, b) == pytest.approx((0.5, 4.5))
    assert density(np.array([0.0, 0.4, a, b, 5.0]), 2.0, 0.25) == pytest.approx(np.zeros(5))


def test_edges_as_singular_and_as_eigenvalues_agree():
    edge = largest_singular_value(3.0, (50, 200))
    assert edge**2 / 200 == pytest.approx(support(3.0, 50 / 200)[1])


# --- scree -------------------------------------------------------------------------------------


def test_scree_draws_values_and_levels(model):
    display = ScreeDisplay.from_estimator(model)
    drawn = lines(display.ax_)
    gamma = model.spectrum_.singular_values * model.spectrum_.scale
    for label, x, y in (
        ("kept", [1, 2, 3], gamma[:3]),
        ("kept, shrunk", [1, 2, 3], model.shrunk_singular_values_),
        ("dropped", np.arange(4, 13), gamma[3:]),
    ):
        assert list(drawn[label].get_xdata()) == list(x)
        assert drawn[label].get_ydata() == pytest.approx(y)
    assert drawn["threshold"].get_ydata() == pytest.approx([model.threshold_] * 2)
    L, M = model.spectrum_.shape
    edge = np.sqrt(model.noise_variance_) * (np.sqrt(L) + np.sqrt(M))
    assert drawn["edge of pure noise"].get_ydata() == pytest.approx([edge] * 2)
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == list(drawn)


def test_scree_of_pure_noise_has_no_kept_values(noise):
    display = ScreeDisplay.from_estimator(noise)
    drawn = lines(display.ax_)
    assert set(drawn) == {"dropped", "threshold", "edge of pure noise"}
    assert display.ax_.get_ylim()[1] > noise.threshold_
    assert display.ax_.texts[0].get_text() == "50 of 100 values shown"


def test_scree_without_threshold(X):
    model = BayesianPCA("ml", n_components=2).fit(X)
    assert "threshold" not in lines(ScreeDisplay.from_estimator(model).ax_)


def test_scree_of_data_divided_by_their_noise(per_feature):
    display = ScreeDisplay.from_estimator(per_feature)
    # Dividing by the noise keeps the geometric mean of its variances, which sets the edge.
    sigma = np.exp(0.5 * np.log(per_feature.feature_noise_variance_).mean())
    assert display.noise_edge == pytest.approx(sigma * (np.sqrt(12) + np.sqrt(119)))
    assert display.ax_.get_ylabel() == "singular value (of data with equal noise)"


def test_scree_of_noise_free_data():
    X = low_rank(30, 6, 2, noise_variance=0.0, random_state=0).X
    display = ScreeDisplay.from_estimator(BayesianPCA().fit(X))
    low, high = display.ax_.get_ylim()
    assert display.ax_.get_yscale() == "log"
    assert low < display.threshold < display.singular_values[0] < high


def test_scree_of_zeros():
    display = ScreeDisplay.from_estimator(BayesianPCA().fit(np.zeros((5, 3))))
    assert display.ax_.get_ylim() == (0, 1)


def test_scree_axis_is_logarithmic_when_wide(model):
    assert ScreeDisplay.from_estimator(model, log=False).ax_.get_yscale() == "linear"
    assert ScreeDisplay.from_estimator(model, log=True).ax_.get_yscale() == "log"
    values = np.array([1000.0, 3.0, 2.0, 1.0])
    wide = ScreeDisplay(values, values[:1] - 1, threshold=4.0, noise_edge=3.5, n_values=4).plot()
    assert wide.ax_.get_yscale() == "log"


@pytest.mark.parametrize("n", [0, 1, 13, 50, 51, 500, 10_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_shown_values(n, share):
    rank = int(share * n)
    shown = shown_indices(n, rank)
    assert shown.size <= 102
    assert np.all(np.diff(shown) > 0)
    assert set(shown) <= set(range(n))
    assert shown.size == n or n > 50
    for needed in (0, rank - 1, rank):
        assert needed in shown or not 0 <= needed < n


# --- density -----------------------------------------------------------------------------------


def area(stairs):
    values, edges, _ = stairs.get_data()
    return float(np.sum(values * np.diff(edges)))


def curve_area(line, per_decade=False):
    x, y = line.get_data()
    return float(np.trapezoid(y, np.log10(x) if per_decade else x))


def test_histogram_and_curve_of_noise_have_area_1_and_agree(noise):
    display = SpectrumDensityDisplay.from_estimator(noise)
    (stairs,) = display.ax_.patches
    (curve,) = display.ax_.lines
    assert area(stairs) == pytest.approx(1)
    assert curve_area(curve) == pytest.approx(1, abs=1e-3)
    assert display.noise_variance == pytest.approx(1, rel=0.02)
    heights, edges, _ = stairs.get_data()
    middles = (edges[1:] + edges[:-1]) / 2
    assert heights == pytest.approx(np.interp(middles, *curve.get_data()), abs=0.2)


def test_more_features_than_samples():
    X = np.random.default_rng(1).normal(size=(80, 300))
    display = SpectrumDensityDisplay.from_estimator(BayesianPCA(engine="dense").fit(X))
    assert display.eigenvalues.size == 79
    assert display.ratio == pytest.approx(300 / 79)
    assert area(display.ax_.patches[0]) == pytest.approx(1)
    assert curve_area(display.ax_.lines[0]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("log", [True, False])
def test_components_are_marked(model, log):
    display = SpectrumDensityDisplay.from_estimator(model, log=log)
    drawn = lines(display.ax_)
    assert drawn["component"].get_xdata() == pytest.approx(model.explained_variance_)
    assert display.rest.size == 9
    assert display.ax_.get_xscale() == ("log" if log else "linear")
    assert curve_area(drawn["pure noise"], per_decade=log) == pytest.approx(1, abs=1e-3)
    assert display.ax_.get_ylabel() == ("density per decade" if log else "density")
    values, edges, _ = display.ax_.patches[0].get_data()
    assert np.sum(values * np.diff(np.log10(edges) if log else edges)) == pytest.approx(1)


def test_kept_values_below_the_edge_stay_in_the_histogram(X):
    model = BayesianPCA("ml", n_components=8).fit(X)
    display = SpectrumDensityDisplay.from_estimator(model)
    assert np.all(display.components > display.edge)
    assert display.components.size + display.rest.size == 12
    assert display.rest.max() <= display.edge or display.components.size == 8


def test_density_of_data_divided_by_their_noise(per_feature):
    display = SpectrumDensityDisplay.from_estimator(per_feature)
    variance = np.exp(np.log(per_feature.feature_noise_variance_).mean())
    assert display.noise_variance == pytest.approx(variance)
    assert display.ax_.get_xlabel() == "eigenvalue (of data with equal noise)"


def test_truncated_spectra_are_refused(model):
    whole = model.spectrum_
    cut = copy.copy(model)
    some = Spectrum(whole.singular_values[:5], whole.shape, whole.sum_of_squares)
    cut.fit_ = replace(model.fit_, spectrum=some)
    with pytest.raises(ValueError, match=r"the 5 largest of 12 singular .* fit with engine='gram'"):
        SpectrumDensityDisplay.from_estimator(cut)
    scree = ScreeDisplay.from_estimator(cut)
    assert scree.ax_.texts[0].get_text() == "5 of 12 values shown"


def test_data_without_noise_are_refused():
    X = low_rank(30, 6, 2, noise_variance=0.0, random_state=0).X
    with pytest.raises(ValueError, match="the data have no noise"):
        SpectrumDensityDisplay.from_estimator(BayesianPCA().fit(X))


def test_data_without_squares_are_refused(X):
    with pytest.raises(ValueError, match="leave the range of floating-point numbers"):
        SpectrumDensityDisplay.from_estimator(BayesianPCA().fit(X * 1e-200))


# --- ranks -------------------------------------------------------------------------------------


def test_bars_are_the_probabilities(model):
    display = RankPosteriorDisplay.from_estimator(model)
    bars = display.ax_.patches
    ranks = np.array([round(bar.get_x() + bar.get_width() / 2) for bar in bars])
    assert [bar.get_height() for bar in bars] == pytest.approx(model.rank_posterior_[ranks])
    assert list(ranks) == list(display.shown)
    colours = {bar.get_facecolor() for bar, rank in zip(bars, ranks, strict=True) if rank == 3}
    others = {bar.get_facecolor() for bar, rank in zip(bars, ranks, strict=True) if rank != 3}
    assert len(colours) == len(others) == 1
    assert not colours & others


@pytest.mark.parametrize(
    ("posterior", "rank", "shown"),
    [
        ([1.0, 0, 0, 0, 0, 0, 0, 0], 0, range(5)),
        ([1.0, 0], 0, range(2)),
        ([0, 0, 0, 0, 0.4, 0.6, 0, 0, 0, 0], 5, range(2, 8)),
        ([0, 0, 0, 0, 0, 0.0005, 0.9995], 6, range(4, 7)),
    ],
)
def test_ranks_worth_showing(posterior, rank, shown):
    display = RankPosteriorDisplay(np.array(posterior), rank)
    assert list(display.shown) == list(shown)
    labels = [text.get_text() for text in display.plot().ax_.texts]
    assert sum(label != "" for label in labels) == sum(p > 1e-3 for p in posterior)


def test_no_rank_is_certain():
    (label, *_) = RankPosteriorDisplay(np.array([1.0, 0.0]), 0).plot().ax_.texts
    assert label.get_text() == "over 99.9 %"


def test_a_rank_that_was_told_has_no_probability(X):
    with pytest.raises(ValueError, match="method='ml' was given its rank"):
        RankPosteriorDisplay.from_estimator(BayesianPCA("ml", n_components=2).fit(X))


def test_minkas_probabilities(X):
    display = RankPosteriorDisplay.from_estimator(BayesianPCA("laplace").fit(X))
    assert sum(bar.get_height() for bar in display.ax_.patches) == pytest.approx(1, abs=0.02)

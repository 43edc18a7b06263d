"""Scores, biplots, T² and Q, and the colours of labels: positions, sizes and counts of marks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca import monitoring
from bayespca.datasets import low_rank
from bayespca.displays import BiplotDisplay, MonitoringDisplay, ScoresDisplay
from bayespca.displays.canvas import groups, is_continuous
from bayespca.displays.scores import spread_out
from bayespca.estimators import BayesianPCA


def ellipses(ax):
    return [c for c in ax.collections if type(c).__name__ == "EllipseCollection"]


def points(ax):
    return [c for c in ax.collections if type(c).__name__ == "PathCollection"]


def places(drawn):
    """Positions of a collection as a plain array; matplotlib returns a masked one."""
    return np.asarray(drawn.get_offsets())


def positions(ax):
    return np.vstack([places(drawn) for drawn in points(ax)])


def remark(ax):
    return [text.get_text() for text in ax.texts]


# --- scores ------------------------------------------------------------------------------------


def test_points_and_ellipses_are_scores_and_their_spread(model, X):
    display = ScoresDisplay.from_estimator(model, X)
    T, std = model.transform(X, return_std=True)
    assert positions(display.ax_) == pytest.approx(T[:, :2])
    (drawn,) = ellipses(display.ax_)
    assert places(drawn) == pytest.approx(T[:, :2])
    # 95 % of a Gaussian in the plane lies within √(−2 log 0.05) standard deviations.
    r = np.sqrt(-2 * np.log(0.05))
    assert drawn.get_widths() == pytest.approx(2 * r * std[:, 0])
    assert drawn.get_heights() == pytest.approx(2 * r * std[:, 1])
    assert remark(display.ax_) == ["95 % ellipses"]
    ratio = 100 * model.explained_variance_ratio_
    assert display.ax_.get_xlabel() == f"component 1 ({ratio[0]:.0f} %)"
    assert display.ax_.get_ylabel() == f"component 2 ({ratio[1]:.0f} %)"


def test_ellipses_are_within_the_axes(model, X):
    ax = ScoresDisplay.from_estimator(model, X).ax_
    (drawn,) = ellipses(ax)
    right = places(drawn)[:, 0] + drawn.get_widths() / 2
    assert right.max() <= ax.get_xlim()[1]


def test_other_components(model, X):
    display = ScoresDisplay.from_estimator(model, X, components=(3, 1))
    assert positions(display.ax_) == pytest.approx(model.transform(X)[:, [2, 0]])
    assert display.ax_.get_xlabel().startswith("component 3")
    assert display.axis_labels[1].startswith("component 1")


@pytest.mark.parametrize("components", [(0, 1), (1, 4), (1, 2, 3), ()])
def test_components_that_do_not_exist(model, X, components):
    with pytest.raises(ValueError, match="one or two whole numbers from 1 to 3"):
        ScoresDisplay.from_estimator(model, X, components=components)


def test_rank_1_is_drawn_over_rows(line):
    X, model = line
    display = ScoresDisplay.from_estimator(model, X)
    T, std = model.transform(X, return_std=True)
    assert positions(display.ax_) == pytest.approx(np.column_stack([np.arange(60), T[:, 0]]))
    (bars,) = (c for c in display.ax_.collections if type(c).__name__ == "LineCollection")
    ends = np.array(bars.get_segments())
    assert ends[:, 1, 1] - ends[:, 0, 1] == pytest.approx(2 * 1.959964 * std[:, 0], rel=1e-6)
    assert display.ax_.get_xlabel() == "row"
    assert display.ax_.get_ylabel().startswith("component 1 (")
    assert remark(display.ax_) == ["95 % intervals"]


def test_no_ellipses_where_there_is_no_spread(X, model):
    exact = BayesianPCA("map", n_components=2).fit(X)
    for display in (
        ScoresDisplay.from_estimator(exact, X),
        ScoresDisplay.from_estimator(model, X, confidence=0.0),
    ):
        assert ellipses(display.ax_) == []
        assert remark(display.ax_) == []


@pytest.mark.parametrize("confidence", [1.0, -0.1, 95])
def test_confidence_is_a_probability(model, X, confidence):
    with pytest.raises(ValueError, match="confidence must be"):
        ScoresDisplay.from_estimator(model, X, confidence=confidence)


def test_many_rows_are_sampled_the_same_way_each_time():
    rng = np.random.default_rng(0)
    T = rng.normal(size=(12_500, 2))
    display = ScoresDisplay(T, np.full_like(T, 0.1), ["a", "b"], labels=np.arange(12_500) % 2)
    first = display.plot().ax_
    assert len(positions(first)) == 10_000
    assert len(ellipses(first)[0].get_offsets()) == 2_000
    assert remark(first) == ["10,000 of 12,500 rows, 95 % ellipses of 2,000"]
    assert np.array_equal(positions(display.plot().ax_), positions(first))
    assert not np.array_equal(positions(display.plot(random_state=1).ax_), positions(first))


def test_whitened_scores(X):
    model = BayesianPCA(whiten=True).fit(X)
    display = ScoresDisplay.from_estimator(model, X)
    assert positions(display.ax_) == pytest.approx(model.transform(X)[:, :2])


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_frames_in_and_out(X, frames):
    library = pytest.importorskip(frames, reason=f"needs {frames}")
    names = [f"f{j}" for j in range(12)]
    if frames == "pandas":
        data, labels = library.DataFrame(X, columns=names), library.Series(X[:, 0], name="first")
    else:
        data, labels = library.DataFrame(X, schema=names), library.Series("first", X[:, 0])
    model = BayesianPCA().set_output(transform=frames).fit(data)
    display = ScoresDisplay.from_estimator(model, data, labels=labels)
    assert positions(display.ax_).shape == (120, 2)
    assert display.figure_.axes[1].get_ylabel() == "first"


# --- labels ------------------------------------------------------------------------------------


def test_classes_have_colours_and_a_legend(model, X):
    labels = np.array(["b", "a", "c"])[np.arange(120) % 3]
    display = ScoresDisplay.from_estimator(model, X, labels=labels)
    T = model.transform(X)[:, :2]
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["a", "b", "c"]
    for name, drawn in zip("abc", points(display.ax_), strict=True):
        assert places(drawn) == pytest.approx(T[labels == name])
    assert len({tuple(c.get_facecolor()[0]) for c in points(display.ax_)}) == 3
    # An ellipse has the colour of its point.
    edge = ellipses(display.ax_)[0].get_edgecolor()
    assert edge[0, :3] == pytest.approx(points(display.ax_)[1].get_facecolor()[0, :3])


def test_numbers_have_a_colour_bar(model, X):
    values = X[:, 0].copy()
    values[:5] = np.nan
    display = ScoresDisplay.from_estimator(model, X, labels=values)
    unlabelled, labelled = points(display.ax_)
    assert len(unlabelled.get_offsets()) == 5
    assert np.asarray(labelled.get_array()) == pytest.approx(values[5:])
    assert display.ax_.get_legend() is None
    assert len(display.figure_.axes) == 2


def test_one_label_for_each_row(model, X):
    with pytest.raises(ValueError, match="X has 120 rows, but there are 3 labels"):
        ScoresDisplay.from_estimator(model, X, labels=[1, 2, 3])


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        (np.arange(20), False),
        (np.arange(21), True),
        (np.array(["x"] * 30), False),
        (np.array([0.0, 1.0, np.nan]), False),
        (np.array([0.1, 0.2, 0.3]), True),
        (np.repeat([0.1, 0.2], 5), False),
        (np.array([True, False]), False),
    ],
)
def test_which_labels_are_numbers(labels, answer):
    assert is_continuous(labels) is answer


def test_at_most_20_classes():
    labels = np.repeat([f"c{i:02}" for i in range(30)], np.arange(30) + 1)
    found = groups(labels)
    assert len(found) == 20
    assert [g.name for g in found[:2]] == ["c11", "c12"]
    assert found[-1].name == "11 other classes"
    assert found[-1].rows.size == sum(range(1, 12))
    assert len({(g.colour, g.marker) for g in found}) == 20
    assert sorted(np.concatenate([g.rows for g in found])) == list(range(labels.size))


def test_labels_that_are_missing_or_mixed():
    found = groups(np.array(["b", None, 1, "b", float("nan")], dtype=object))
    assert [(g.name, list(g.rows)) for g in found] == [
        ("1", [2]),
        ("b", [0, 3]),
        ("no label", [1, 4]),
    ]
    assert [g.name for g in groups(np.array([2.0, np.nan]))] == ["2", "no label"]


# --- biplot ------------------------------------------------------------------------------------


def arrows(ax):
    return np.array([a.xy for a in ax.texts if getattr(a, "arrow_patch", None) is not None])


def names(ax):
    return [a.get_text() for a in ax.texts if a.get_text()]


def test_arrows_are_the_longest_loadings(model, X):
    display = BiplotDisplay.from_estimator(model, X, n_features=4)
    W = model.components_[:2].T
    order = np.argsort(-np.hypot(*W.T))[:4]
    drawn = arrows(display.ax_)
    factor = np.hypot(*drawn[0]) / np.hypot(*W[order[0]])
    assert drawn == pytest.approx(factor * W[order])
    assert names(display.ax_) == [f"feature {j}" for j in order]
    T = model.transform(X)[:, :2]
    assert positions(display.ax_) == pytest.approx(T)
    assert np.hypot(*drawn.T).max() == pytest.approx(0.85 * np.hypot(*T.T).max())
    assert display.ax_.get_aspect() == 1
    assert ellipses(display.ax_) == []


def test_inner_products_are_denoised_data(X):
    """Scores times loadings are the centred denoised data, with and without whitening."""
    for whiten in (False, True):
        model = BayesianPCA(whiten=whiten, n_components=2).fit(X)
        display = BiplotDisplay.from_estimator(model, X)
        product = display.scores.scores @ display.loadings.T
        assert product == pytest.approx(model.denoise(X) - model.mean_)


def test_fewer_features_than_asked_for(model, X):
    assert len(arrows(BiplotDisplay.from_estimator(model, X, n_features=50).ax_)) == 12


def test_biplots_need_two_components(line, model):
    X, rank_1 = line
    with pytest.raises(ValueError, match="the model has 1: use ScoresDisplay"):
        BiplotDisplay.from_estimator(rank_1, X)
    with pytest.raises(ValueError, match=r"needs two components, got \(2,\)"):
        BiplotDisplay.from_estimator(model, np.zeros((4, 12)), components=(2,))


def test_names_are_spread_out():
    tips = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02], [1.0, 5.0], [-1.0, 0.0]])
    spread = spread_out(tips, height=0.5)
    assert spread[:, 0] == pytest.approx(tips[:, 0])
    assert np.diff(spread[:3, 1]) == pytest.approx([0.5, 0.5])
    assert spread[:3, 1].mean() == pytest.approx(0.01)
    assert spread[3:] == pytest.approx(tips[3:])


def test_long_names_keep_off_the_axis():
    X = low_rank(100, 12, 3, random_state=0).X
    names = [f"a rather long name of feature {j}" for j in range(12)]
    model = BayesianPCA().fit(pd.DataFrame(X, columns=names))
    display = BiplotDisplay.from_estimator(model, pd.DataFrame(X, columns=names))
    display.figure_.draw_without_rendering()
    left = display.ax_.get_window_extent().x0
    shown = [text for text in display.ax_.texts if text.get_text().startswith("a rather")]
    assert shown
    assert min(text.get_window_extent().x0 for text in shown) > left


# --- T² and Q ----------------------------------------------------------------------------------


def names_on(ax):
    return {text.get_text() for text in ax.texts}


def test_rows_above_a_limit_are_named(model, X):
    new = X[:30].copy()
    new[11, 4] += 20.0
    found = monitoring.statistics(model, new, alpha=1e-4)
    shown = MonitoringDisplay.from_statistics(found, rows=[f"batch {i}" for i in range(30)])
    assert "batch 11" in names_on(shown.ax_)
    assert "batch 12" not in names_on(shown.ax_)
    assert shown.q[11] == found.q[11] / found.q_limit[11]
    with pytest.raises(ValueError, match="30 rows, but 2 names"):
        MonitoringDisplay.from_statistics(found, rows=["a", "b"])


def test_without_components_q_is_shown_alone(noise):
    new = np.random.default_rng(1).normal(size=(20, 100))
    shown = MonitoringDisplay.from_statistics(monitoring.statistics(noise, new))
    assert shown.ax_.get_legend_handles_labels()[1] == ["Q"]

"""Latent spaces of curves: points, shading and relevances are those of the model."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import GPLVM
from bayespca.displays import LatentDisplay, RelevanceDisplay

RNG = np.random.default_rng(0)
U, V = RNG.uniform(-1, 1, size=(2, 80))
SHEET = np.stack([2 * U, 2 * V, U**2, V**2, U * V, np.sin(2 * U)], axis=1)
SHEET += 0.05 * RNG.normal(size=SHEET.shape)


@pytest.fixture(scope="module")
def sheet():
    """A bent sheet in six features: two dimensions."""
    model = GPLVM(3, n_inducing=12, random_state=0).fit(SHEET)
    assert model.n_components_ == 2
    return model


@pytest.fixture(scope="module")
def arc():
    """An arc in four features: one dimension."""
    t = np.linspace(0, 3, 60)
    X = np.stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)], axis=1)
    model = GPLVM(1, n_inducing=12, random_state=0).fit(
        X + 0.05 * np.random.default_rng(1).normal(size=X.shape)
    )
    assert model.n_components_ == 1
    return model


def test_points_are_those_of_the_fit(sheet):
    display = LatentDisplay.from_estimator(sheet)
    assert display.points == pytest.approx(sheet.embedding_[:, :2])
    (drawn,) = display.ax_.collections
    assert drawn.get_offsets().data == pytest.approx(display.points)
    assert display.ax_.get_xlabel() == f"dimension 1 (relevance {sheet.relevance_[0]:.2g})"


def test_shading_is_the_spread_of_the_functions(sheet):
    display = LatentDisplay.compute(sheet, components=(2, 1))
    i, j = 7, 40
    point = np.zeros((1, sheet.n_components_))
    point[0, 1], point[0, 0] = display.grid[0][i], display.grid[1][j]
    std = sheet.inverse_transform(point, return_std=True)[1]
    assert display.spread[i, j] == pytest.approx(np.sqrt((std**2).mean()))
    (image,) = display.plot().ax_.images
    shown = image.get_array()
    assert shown[j, i] == pytest.approx(np.log(display.spread[i, j]))
    assert image.get_extent() == pytest.approx(
        [display.grid[0][0], display.grid[0][-1], display.grid[1][0], display.grid[1][-1]]
    )


def test_functions_are_known_where_rows_lie(sheet):
    display = LatentDisplay.compute(sheet)
    nearest = [
        np.abs(axis[:, None] - at).argmin(axis=0)
        for axis, at in zip(display.grid, display.points.T, strict=True)
    ]
    assert display.spread[tuple(nearest)].mean() < 0.5 * display.spread[0, 0]


def test_other_rows_and_labels(sheet):
    labels = np.where(U[:10] < 0, "left", "right")
    display = LatentDisplay.from_estimator(sheet, SHEET[:10], labels=labels)
    assert len(display.points) == 10
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["left", "right"]
    with pytest.raises(ValueError, match="X has 80 rows, but there are 10 labels"):
        LatentDisplay.from_estimator(sheet, labels=labels)


def test_one_dimension_is_drawn_by_row(arc):
    display = LatentDisplay.from_estimator(arc, labels=np.linspace(0, 3, 60))
    assert display.spread.shape == (60,)
    points = display.ax_.collections[0].get_offsets().data
    assert points == pytest.approx(np.column_stack([np.arange(60), arc.embedding_[:, 0]]))
    assert display.ax_.get_xlabel() == "row"
    with pytest.raises(ValueError, match="whole numbers from 1 to 1"):
        LatentDisplay.compute(arc, components=(1, 2))


def test_of_many_rows_some_are_drawn(sheet):
    display = LatentDisplay.compute(sheet).plot(max_points=20)
    assert len(display.ax_.collections[0].get_offsets()) == 20
    assert "20 of 80 rows" in display.ax_.texts[0].get_text()


def test_bars_are_relevances(sheet):
    display = RelevanceDisplay.from_estimator(sheet)
    heights = [bar.get_height() for bar in display.ax_.patches]
    assert heights == pytest.approx(sheet.relevance_)
    assert len(display.ax_.texts) == sheet.n_components_


@pytest.mark.parametrize("display", [LatentDisplay, RelevanceDisplay])
def test_other_models_have_none(display, model):
    with pytest.raises(ValueError, match="BayesianPCA has no latent space of curves"):
        display.from_estimator(model)

"""Hinton diagrams, maps of holes, and traces: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayespca.displays import FreeEnergyDisplay, HintonDisplay, MissingnessDisplay
from bayespca.displays.maps import block_means, holes_of
from bayespca.estimators import BayesianPCA

# --- Hinton diagrams ---------------------------------------------------------------------------


def squares(collection):
    """Centres and areas of the squares of one colour."""
    corners = np.array([path.vertices[:4] for path in collection.get_paths()]).reshape(-1, 4, 2)
    sides = np.ptp(corners, axis=1)
    assert sides[:, 0] == pytest.approx(sides[:, 1])
    return corners.mean(axis=1), sides[:, 0] ** 2


def test_areas_and_colours_are_sizes_and_signs():
    W = np.array([[1.0, -0.25], [0.0, 0.5], [-4.0, np.nan]])
    ax = HintonDisplay(W).plot().ax_
    white, black = ax.collections
    assert white.get_facecolor()[0, :3] == pytest.approx([1, 1, 1])
    assert black.get_facecolor()[0, :3] == pytest.approx([0, 0, 0])
    for collection, entries in ((white, [(0, 0), (1, 1)]), (black, [(0, 1), (2, 0)])):
        centres, areas = squares(collection)
        assert centres == pytest.approx(np.array([(h + 1, j) for j, h in entries]))
        largest = 0.94**2
        assert areas == pytest.approx([largest * abs(W[at]) / 4 for at in entries])
    assert ax.get_aspect() == 1
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2"]


@pytest.mark.parametrize("scaled", [True, False])
def test_loadings_of_an_estimator(model, scaled):
    display = HintonDisplay.from_estimator(model, scaled=scaled)
    lengths = np.sqrt(model.explained_variance_) if scaled else np.ones(3)
    assert display.weights == pytest.approx(model.components_.T * lengths)
    labels = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert labels == [f"feature {j}" for j in range(12)]


def test_many_features_have_no_names():
    W = np.random.default_rng(0).normal(size=(60, 30))
    ax = HintonDisplay(W, feature_names=[f"n{j}" for j in range(60)]).plot().ax_
    assert ax.get_ylabel() == "feature"
    assert "n0" not in [tick.get_text() for tick in ax.get_yticklabels()]


def test_zeros_are_empty():
    ax = HintonDisplay(np.zeros((3, 2))).plot().ax_
    assert [len(c.get_paths()) for c in ax.collections] == [0, 0]


@pytest.mark.parametrize("shape", [(3,), (0, 2)])
def test_hinton_needs_a_matrix(shape):
    with pytest.raises(ValueError, match="needs a matrix"):
        HintonDisplay(np.zeros(shape)).plot()


def test_hinton_needs_finite_entries():
    with pytest.raises(ValueError, match="infinite"):
        HintonDisplay(np.array([[np.inf, 1.0]])).plot()


# --- holes -------------------------------------------------------------------------------------


@pytest.fixture
def holes():
    return np.random.default_rng(0).random((40, 6)) < np.linspace(0, 0.9, 6)


def with_holes(holes):
    return np.where(holes, np.nan, 1.5)


def test_map_and_columns(holes):
    display = MissingnessDisplay.from_data(with_holes(holes))
    (image,) = display.ax_.images
    assert np.array_equal(image.get_array(), holes.astype(float))
    assert image.get_extent() == [-0.5, 5.5, 39.5, -0.5]
    heights, edges, _ = display.column_ax_.patches[0].get_data()
    assert heights == pytest.approx(100 * holes.mean(axis=0))
    assert list(edges) == list(np.arange(7) - 0.5)
    total = f"{100 * holes.mean():.0f} % of 40 × 6 missing"
    assert display.column_ax_.texts[0].get_text() == total
    assert display.ax_.get_xlabel() == "column"


def test_large_data_are_drawn_in_blocks():
    X = np.zeros((1500, 1000))
    X[:, :250] = np.nan
    X[750:, 250:500] = np.nan
    display = MissingnessDisplay.from_data(X)
    assert display.shares.shape == (500, 200)
    assert display.shares.mean() == pytest.approx(0.375)
    assert np.array_equal(np.unique(display.shares), [0, 1])
    assert display.column_shares.shape == (1000,)


def test_means_of_blocks(holes):
    means = block_means(holes, 7, 4)
    assert means.shape == (7, 4)
    rows, columns = np.linspace(0, 40, 8).astype(int), np.linspace(0, 6, 5).astype(int)
    for i in range(7):
        for j in range(4):
            block = holes[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
            assert means[i, j] == pytest.approx(block.mean())


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_holes_and_nothing_but_holes(share):
    display = MissingnessDisplay.from_data(np.full((5, 3), np.nan if share else 1.0))
    assert np.all(display.shares == share)
    assert display.column_ax_.texts[0].get_text() == f"{100 * share:.0f} % of 5 × 3 missing"
    display.figure_.canvas.draw()


def test_pandas(holes):
    pd = pytest.importorskip("pandas", reason="needs pandas")
    frame = pd.DataFrame(with_holes(holes), columns=[f"column {j}" for j in range(6)])
    frame["words"] = pd.Series(["a", None] * 20, dtype="string")
    display = MissingnessDisplay.from_data(frame)
    assert np.array_equal(display.shares[:, :6], holes)
    assert display.column_shares[6] == 0.5
    labels = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert labels == [f"column {j}" for j in range(6)] + ["words"]


def test_polars(holes):
    pl = pytest.importorskip("polars", reason="needs polars")
    frame = pl.DataFrame(with_holes(holes), schema=list("abcdef"))
    assert np.array_equal(holes_of(frame), holes)
    nulls = frame.with_columns(pl.col("b").fill_nan(None), g=pl.Series([1, None] * 20))
    assert np.array_equal(holes_of(nulls)[:, :6], holes)
    assert holes_of(nulls)[:, 6].mean() == 0.5
    words = frame.with_columns(h=pl.Series(["x", None] * 20))
    assert np.array_equal(holes_of(words)[:, :6], holes)
    assert MissingnessDisplay.from_data(words).column_shares[6] == 0.5


def test_other_kinds_of_data(holes):
    X = with_holes(holes)
    assert np.array_equal(holes_of(sp.csr_array(np.where(holes, np.nan, 0.0))), holes)
    assert np.array_equal(holes_of(X.tolist()), holes)
    assert not holes_of(np.arange(6).reshape(2, 3)).any()
    objects = np.array([["a", None], [1.0, float("nan")]], dtype=object)
    assert np.array_equal(holes_of(objects), [[False, True], [False, True]])


@pytest.mark.parametrize("shape", [(3,), (0, 3), (3, 0)])
def test_maps_need_rows_and_columns(shape):
    with pytest.raises(ValueError, match="needs rows and columns"):
        MissingnessDisplay.from_data(np.zeros(shape))


# --- traces ------------------------------------------------------------------------------------


def test_trace(per_feature):
    display = FreeEnergyDisplay.from_estimator(per_feature)
    (energy,), (rank,) = display.ax_.lines, display.rank_ax_.lines
    steps = np.arange(1, per_feature.n_iter_ + 1)
    assert list(energy.get_xdata()) == list(rank.get_xdata()) == list(steps)
    assert energy.get_ydata() == pytest.approx(per_feature.trace_.free_energy)
    assert list(rank.get_ydata()) == list(per_feature.trace_.rank)
    assert rank.get_drawstyle() == "steps-mid"
    assert (display.ax_.get_ylabel(), display.rank_ax_.get_ylabel()) == (
        "free energy (nats)",
        "rank",
    )


def test_the_closed_form_has_no_steps(model):
    with pytest.raises(ValueError, match="solved in closed form, at its minimum at once"):
        FreeEnergyDisplay.from_estimator(model)


def test_one_step(X):
    with pytest.warns(UserWarning, match="still fell in the last of 1 steps"):
        model = BayesianPCA(noise="per-feature", max_iter=1).fit(X)
    display = FreeEnergyDisplay.from_estimator(model)
    assert len(display.ax_.lines[0].get_xdata()) == 1

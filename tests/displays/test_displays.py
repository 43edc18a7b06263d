"""The contract of all displays: they draw on the given axes, and errors say what they need."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bayespca import displays
from bayespca.displays import (
    BiplotDisplay,
    ClustersDisplay,
    ComponentSelectionDisplay,
    FreeEnergyDisplay,
    HintonDisplay,
    LatentDisplay,
    MissingnessDisplay,
    MonitoringDisplay,
    RankPosteriorDisplay,
    RelevanceDisplay,
    ScoresDisplay,
    ScreeDisplay,
    SpectrumDensityDisplay,
    ViewsDisplay,
    canvas,
    readings,
)
from bayespca.estimators import (
    GPLVM,
    BayesianPCA,
    BernoulliMixture,
    ComponentSelection,
    MultiViewPCA,
)
from bayespca.monitoring import statistics


def draw_clusters(m, p, X, **at):
    """Clusters of a mixture, which is fitted if `m` is."""
    mixture = BernoulliMixture(2, binarize=1.0, random_state=0)
    mixture = mixture.fit(X) if hasattr(m, "components_") else mixture
    return ClustersDisplay.from_estimator(mixture, X, **at)


def curved(m, X):
    """A model with a latent space, fitted if `m` is."""
    model = GPLVM(2, n_inducing=8, random_state=0)
    return model.fit(X[:50]) if hasattr(m, "components_") else model


def of_views(m, X):
    """A model of two views, fitted if `m` is."""
    model = MultiViewPCA()
    return model.fit([X[:50, :4], X[:50, 4:]]) if hasattr(m, "components_") else model


def draw_selection(m, p, X, **at):
    scores = np.array([[-3.0, -3.2], [-2.0, -2.4], [-1.9, -2.4]])
    found = ComponentSelection(np.array([1, 2, 3]), scores)
    return ComponentSelectionDisplay.from_selection(found, **at)


DRAW = {
    "ScreeDisplay": lambda m, p, X, **at: ScreeDisplay.from_estimator(m, **at),
    "SpectrumDensityDisplay": lambda m, p, X, **at: SpectrumDensityDisplay.from_estimator(m, **at),
    "RankPosteriorDisplay": lambda m, p, X, **at: RankPosteriorDisplay.from_estimator(m, **at),
    "HintonDisplay": lambda m, p, X, **at: HintonDisplay.from_estimator(m, **at),
    "ScoresDisplay": lambda m, p, X, **at: ScoresDisplay.from_estimator(m, X, **at),
    "BiplotDisplay": lambda m, p, X, **at: BiplotDisplay.from_estimator(m, X, **at),
    "FreeEnergyDisplay": lambda m, p, X, **at: FreeEnergyDisplay.from_estimator(p, **at),
    "MissingnessDisplay": lambda m, p, X, **at: MissingnessDisplay.from_data(X, **at),
    "ClustersDisplay": draw_clusters,
    "LatentDisplay": lambda m, p, X, **at: LatentDisplay.from_estimator(curved(m, X), **at),
    "RelevanceDisplay": lambda m, p, X, **at: RelevanceDisplay.from_estimator(curved(m, X), **at),
    "ViewsDisplay": lambda m, p, X, **at: ViewsDisplay.from_estimator(of_views(m, X), **at),
    "ComponentSelectionDisplay": draw_selection,
    "MonitoringDisplay": lambda m, p, X, **at: MonitoringDisplay.from_statistics(
        statistics(m, X), **at
    ),
}


def test_every_display_is_tested_here():
    assert set(DRAW) == set(displays.__all__)


@pytest.mark.parametrize("name", DRAW)
class TestContract:
    def test_draws_on_a_new_figure_and_again(self, name, model, per_feature, X, plt):
        display = DRAW[name](model, per_feature, X)
        first = display.ax_
        assert display.figure_ is first.figure
        assert tuple(display.figure_.get_size_inches()) == (5.0, 3.5) or name == "HintonDisplay"
        assert display.plot() is display
        assert display.ax_ is not first
        display.figure_.canvas.draw()

    def test_draws_on_given_axes(self, name, model, per_feature, X, plt):
        figure, (left, right) = plt.subplots(1, 2)
        display = DRAW[name](model, per_feature, X, ax=right)
        assert display.ax_ is right
        assert display.figure_ is figure
        assert not left.has_data()
        assert plt.get_fignums() == [figure.number]

    def test_axes_are_labelled_and_have_no_title(self, name, model, per_feature, X):
        ax = DRAW[name](model, per_feature, X).ax_
        assert ax.get_xlabel()
        assert ax.get_ylabel() or len(ax.get_yticklabels()) == X.shape[1]
        assert ax.get_title() == ""

    def test_the_record_is_frozen(self, name, model, per_feature, X):
        display = DRAW[name](model, per_feature, X)
        with pytest.raises(FrozenInstanceError):
            display.ax_ = None


@pytest.mark.parametrize(
    "name", sorted(set(DRAW) - {"MissingnessDisplay", "ComponentSelectionDisplay"})
)
def test_unfitted_estimators_are_refused(name, X):
    empty = BayesianPCA()
    with pytest.raises(NotFittedError):
        DRAW[name](empty, empty, X)


@pytest.mark.parametrize("name", ["HintonDisplay", "ScoresDisplay", "BiplotDisplay"])
def test_rank_0_has_nothing_to_show(name, noise):
    with pytest.raises(ValueError, match="the model found rank 0, so there are no"):
        DRAW[name](noise, noise, np.zeros((3, 100)))


def test_clusters_need_a_mixture(model, X):
    with pytest.raises(ValueError, match="BayesianPCA has no clusters of zeros and ones"):
        ClustersDisplay.from_estimator(model, X)


def test_models_without_a_spectrum_are_refused(model):
    class Holes(BayesianPCA):
        spectrum_ = None

        def __sklearn_is_fitted__(self):
            return True

    with pytest.raises(ValueError, match="no singular values of complete data"):
        ScreeDisplay.from_estimator(Holes())


def test_missing_matplotlib_is_explained(monkeypatch, model):
    def nothing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(canvas, "import_module", nothing)
    with pytest.raises(ImportError, match=r'pip install "bayespca\[plot\]"'):
        ScreeDisplay.from_estimator(model)


def test_importing_displays_does_not_import_matplotlib():
    code = "import sys, bayespca.displays; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_models_of_torch_arrays(X):
    torch = pytest.importorskip("torch", reason="needs torch")
    T = torch.asarray(X)
    model = BayesianPCA().fit(T)
    for name in set(DRAW) - {"FreeEnergyDisplay"}:
        assert DRAW[name](model, None, T).ax_.has_data(), name


def test_names(X):
    pd = pytest.importorskip("pandas", reason="needs pandas")
    names = [f"f{j}" for j in range(11)] + ["a name that is too long to be written"]
    model = BayesianPCA().fit(pd.DataFrame(X, columns=names))
    assert readings.short_feature_names(model) == [*names[:11], "a name that is too long…"]
    ratio = 100 * model.explained_variance_ratio_[0]
    assert readings.component_label(model, 1) == f"component 1 ({ratio:.0f} %)"
    assert readings.short_feature_names(BayesianPCA().fit(X))[:2] == ["feature 0", "feature 1"]


def test_notebooks_show_a_short_line_below_a_figure(model):
    """The repr must not list all the numbers that were drawn."""
    shown = repr(displays.ScreeDisplay.from_estimator(model))
    assert shown.startswith("<ScreeDisplay: singular_values ")
    assert len(shown) < 120

"""Six sets of features of 2,000 handwritten digits: which factors they share, and what for.

Fourier coefficients, profile correlations, Karhunen-Loève coefficients, pixel averages, Zernike
moments and six numbers on shapes, all of the same images (UCI's "multiple features").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayespca import MultiViewPCA
from bayespca.displays import ViewsDisplay

from ..comparing import claim
from ..data import Data, FloatArray
from ..drawing import panels
from ..records import Outcome, Run, Table
from .tables import HALF, Tables, numbers, rows, shared_out, side_by_side, without

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = {
    "Fourier": "fou",
    "profiles": "fac",
    "Karhunen": "kar",
    "pixels": "pix",
    "Zernike": "zer",
    "shape": "mor",
}
# Digits to fit, and the largest number of factors; all other digits are new.
FITTED, MOST = 500, 40
QUICK_FITTED, QUICK_MOST = 200, 12
# Share of the free energy that may be left to gain: ten nats.
TOL = 1e-4
# Images and factors that are drawn.
SHOWN, FACTORS = 8, 25


def read(data: Data) -> tuple[dict[str, FloatArray], NDArray[np.intp]]:
    """The views, and which digit each row is."""
    found = {
        name: numbers(data, f"UCImultifeature/mfeat-{file}.csv") for name, file in FILES.items()
    }
    return {name: x[:, :-1] for name, x in found.items()}, found["pixels"][:, -1].astype(np.intp)


def reproduce(run: Run) -> Outcome:
    views, digit = read(run.data)
    order = np.random.default_rng(0).permutation(len(digit))
    n, most = (QUICK_FITTED, QUICK_MOST) if run.quick else (FITTED, MOST)
    known, new = order[:n], order[n:]
    model = MultiViewPCA(most, noise="per-feature", tol=TOL).fit(rows(views, known))
    recognised = recognition(model, views, digit, known, new)
    foretold = {name: prediction(model, views, name, known, new) for name in run.each(FILES)}
    in_views = shared_out(model)
    held = [row[2] for row in foretold.values()]
    return Outcome(
        (
            claim(
                "new digits recognised from factors of all views, and from as many of PCA",
                run.printed["recognised"],
                f"{recognised['all six views']:.1%} and {recognised['PCA']:.1%}",
                holds=recognised["all six views"] >= recognised["PCA"] - 0.005,
            ),
            claim(
                "95 % intervals of cells of views that are not given hold, view by view",
                run.printed["intervals"],
                f"{min(held):.0%} to {max(held):.0%}",
                holds=0.93 <= min(held) <= max(held) <= 0.97,
            ),
            claim(
                "error of a view that is not given, over that of ridge regression, at most",
                run.printed["ridge"],
                f"{max(ours / ridge for ours, ridge, _ in foretold.values()):.2f}",
                holds=all(ours <= 1.1 * ridge for ours, ridge, _ in foretold.values()),
            ),
        ),
        setting=f"{n} digits fitted, the other {len(new):,} are new; noise for each feature; "
        f"{model.n_components_} factors, {most} being the most. In one to six views: "
        f"{', '.join(map(str, in_views))}.",
        seed="0, for the digits that are fitted",
        figures={
            "Share of the variance of each view that the first factors explain; blank where the "
            "factor is not in the view.": _pattern(model),
            "New digits: the pixels, and what the other five views say of them.": _images(
                model, views, new
            ),
        },
        tables=(
            Table(
                "New digits that are recognised by linear discriminant analysis of scores.",
                ("scores from", "right"),
                tuple((name, f"{share:.1%}") for name, share in recognised.items()),
            ),
            Table(
                "A view of new digits from the other five: root mean square error in standard "
                "deviations of the features, and how many cells lie in their 95 % interval.",
                ("view", "ours", "ridge regression", "in the interval"),
                tuple(
                    (name, f"{ours:.2f}", f"{ridge:.2f}", f"{held:.0%}")
                    for name, (ours, ridge, held) in foretold.items()
                ),
            ),
        ),
        remarks=(run.printed["words"],),
    )


def recognition(
    model: MultiViewPCA,
    views: Tables,
    digit: NDArray[np.intp],
    known: NDArray[np.intp],
    new: NDArray[np.intp],
) -> dict[str, float]:
    """The share of new digits that discriminants of the known ones' scores recognise."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rule = LinearDiscriminantAnalysis().fit(model.transform(rows(views, known)), digit[known])
    found = {"all six views": rule.score(model.transform(rows(views, new)), digit[new])}
    for name in views:
        given = {name: views[name][new]}
        found[f"{name} alone"] = rule.score(model.transform(given), digit[new])
    X = side_by_side(views, known)
    pca = PCA(model.n_components_, random_state=0).fit(X[known])
    rule = LinearDiscriminantAnalysis().fit(pca.transform(X[known]), digit[known])
    found["PCA"] = rule.score(pca.transform(X[new]), digit[new])
    return {name: float(share) for name, share in found.items()}


def prediction(
    model: MultiViewPCA,
    views: Tables,
    name: str,
    known: NDArray[np.intp],
    new: NDArray[np.intp],
) -> tuple[float, float, float]:
    """Errors of a view from the others, ours and ridge regression's, and what intervals hold."""
    from sklearn.linear_model import RidgeCV

    size, truth = views[name][known].std(axis=0), views[name][new]
    mean, std = model.predict_view(without(rows(views, new), name), name, return_std=True)
    X = side_by_side(without(views, name), known)
    ridge = RidgeCV(alphas=np.logspace(-1, 4, 11)).fit(X[known], views[name][known] / size)
    errors = [(found / size - truth / size) for found in (mean, ridge.predict(X[new]) * size)]
    ours, theirs = (float(np.sqrt((error**2).mean())) for error in errors)
    return ours, theirs, float((np.abs(mean - truth) < HALF * std).mean())


def _pattern(model: MultiViewPCA) -> Figure:
    explained, active = (x[:FACTORS] for x in (model.explained_variance_ratio_, model.active_))
    figure, (ax,) = panels(width=6.0, height=1.2 + 0.24 * len(active))
    ax.grid(False)
    ViewsDisplay(explained, active, list(model.view_names_)).plot(ax=ax)
    return figure


def _images(model: MultiViewPCA, views: Tables, new: NDArray[np.intp]) -> Figure:
    figure, axes = panels(SHOWN, width=1.1, height=2.6)
    some = new[:SHOWN]
    found = model.predict_view(without(rows(views, some), "pixels"), "pixels")
    for ax, truth, guess in zip(axes, views["pixels"][some], found, strict=True):
        both = np.concatenate([truth.reshape(16, 15), np.zeros((1, 15)), guess.reshape(16, 15)])
        ax.imshow(both, cmap="gray_r", vmin=0, vmax=6)
        ax.set_axis_off()
    return figure

"""Eigenfaces: PCA of images of a face, with the number of components found automatically.

The lecture's faces (Turk and Pentland; Yuille) are not here. These are 1965 images of one face with
changing expressions, 28 × 20 pixels: the lecture's numbers are of other data and no measure.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from bayespca import BayesianPCA

from ..comparing import shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run

PIXELS = (28, 20)
SHARES = (0.5, 0.9, 0.95, 0.99)
HELD_OUT = 5
FEW, TURK_AND_PENTLAND = (1, 5, 20), (100, 150)


def reproduce(run: Run) -> Outcome:
    X = run.data.table("freyfaces")
    model = BayesianPCA(n_components="evb", noise="isotropic").fit(X)
    eigenvalues = model.spectrum_.singular_values**2
    cumulative = np.cumsum(eigenvalues) / np.sum(eigenvalues)
    held_out = np.arange(len(X)) % HELD_OUT == 0
    train, unseen = X[~held_out], X[held_out]
    found = BayesianPCA(n_components="evb", noise="isotropic").fit(train).n_components_
    errors = {k: _root_mean_square(_rebuilding(train, unseen, k) - unseen) for k in (*FEW, found)}
    same = _same_neighbour(train, unseen, (*FEW, *TURK_AND_PENTLAND))
    few = [f"{share:.0%} by {np.argmax(cumulative >= share) + 1}" for share in SHARES]
    return Outcome(
        (
            shown(
                "share of variance, Σλ of the first M over Σλ of all",
                f"{', '.join(few)} of {X.shape[1]} components",
            ),
            shown(
                "components found automatically",
                f"{model.n_components_}, with {cumulative[model.n_components_ - 1]:.1%} of the "
                f"variance; noise of {model.noise_variance_**0.5:.1f} grey levels",
            ),
            shown(
                "root mean square error of unseen images, in grey levels",
                f"by the mean face {_root_mean_square(unseen - train.mean(axis=0)):.1f}; by "
                + _listed({k: f"{error:.1f}" for k, error in errors.items()}),
            ),
            shown(
                "unseen images whose nearest known image by weights is also nearest by pixels",
                "by " + _listed({k: f"{share:.0%}" for k, share in same.items()}),
            ),
        ),
        setting=f"Frey faces, {len(X)} images with {X.shape[1]} pixels, centred. Errors: fitted to "
        f"{HELD_OUT - 1} of {HELD_OUT} images, the other one unseen.",
        figures={
            "The mean face, and the first seven eigenfaces.": _faces(
                [model.mean_, *model.components_[:7]],
                ["mean", *(f"eigenface {k}" for k in range(1, 8))],
            ),
            "An unseen image, and what components fitted to others make of it.": _faces(
                *_rebuilt(X, held_out, (*FEW, found))
            ),
            "Share of the variance of the first M components; the line is at the number found.": (
                _shares(cumulative, model.n_components_)
            ),
        },
        remarks=(
            "The lecture reports for other faces that the images of one object under different "
            "lighting, 256 × 256 pixels, lie mostly in 3–5 dimensions, and that most faces can be "
            "identified by 100 to 150 of 10 000 eigenfaces.",
        ),
    )


def _listed(values: dict[int, str]) -> str:
    return ", ".join(f"{k} components {value}" for k, value in values.items()).replace(
        "1 components", "1 component", 1
    )


def _weights(train: np.ndarray, k: int) -> BayesianPCA:
    return BayesianPCA("ml", n_components=k).fit(train)


def _rebuilding(train: np.ndarray, images: np.ndarray, k: int) -> np.ndarray:
    model = _weights(train, k)
    return np.asarray(model.mean_ + model.project(images) @ model.components_)


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _same_neighbour(train: np.ndarray, images: np.ndarray, counts) -> dict[int, float]:
    """The lecture's way to recognise: the nearest of the known images, by weights of eigenfaces."""
    by_pixels = cdist(images, train).argmin(axis=1)
    shares = {}
    for k in counts:
        model = _weights(train, k)
        by_weights = cdist(model.project(images), model.project(train)).argmin(axis=1)
        shares[k] = float(np.mean(by_weights == by_pixels))
    return shares


def _rebuilt(X: np.ndarray, held_out: np.ndarray, counts: tuple[int, ...]):
    image = X[held_out][:1]
    images = [image[0], *(_rebuilding(X[~held_out], image, k)[0] for k in counts)]
    return images, ["image", *(f"{k} components" if k > 1 else "1 component" for k in counts)]


def _faces(images, titles):
    figure, axes = panels(len(images), width=1.5, height=2.4)
    for ax, image, title in zip(axes, images, titles, strict=True):
        ax.imshow(np.reshape(image, PIXELS), cmap="gray")
        ax.set_axis_off()
        ax.set_title(title, fontsize="small")
    return figure


def _shares(cumulative: np.ndarray, found: int):
    figure, (ax,) = panels(1, width=6)
    ax.plot(np.arange(1, cumulative.size + 1), cumulative, color=COLOURS["evb"])
    ax.axvline(found, color=REFERENCE, linewidth=0.8)
    ax.set(xlabel="M", ylabel="share of variance", ylim=(0, 1.02))
    return figure

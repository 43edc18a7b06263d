"""What the lecture says of PCA's limits: units of measurement, outliers, missing values."""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA, VariationalPCA

from ..comparing import claim
from ..drawing import panels
from ..records import Outcome, Run
from .groups import LINE, SQUARE, grouped, scatter, share_nearest

UNIT, HOLES, FAR = 1000.0, 0.1, 100.0


def reproduce(run: Run) -> Outcome:
    Y, labels = grouped(SQUARE, seed=0)
    in_other_units = Y.copy()
    in_other_units[:, 6] *= UNIT
    covariance = _first(in_other_units)[6] ** 2
    correlation = np.abs(_first(in_other_units, scale=True) - _first(Y, scale=True)).max()
    outlier = Y.copy()
    outlier[0, 6] = FAR
    holes = _with_holes(Y)
    model = VariationalPCA(2, prior="unit", random_state=0).fit(holes)
    latent = model.transform(holes)
    complete = VariationalPCA(2, prior="unit", random_state=0).fit(Y)
    angle = _largest_angle(model.components_, complete.components_)
    on_line, in_square = _filling(LINE), _filling(SQUARE)
    return Outcome(
        (
            claim(
                "units of measurement",
                run.printed["units"],
                f"a dimension of noise times {UNIT:g} has {covariance:.1%} of the first component",
                holds=bool(covariance > 0.99),
            ),
            claim(
                "PCs from Corr(X)",
                run.printed["correlation"],
                f"BayesianPCA(scale=True) changes by {correlation:.1g}",
                holds=bool(correlation < 1e-10),
            ),
            claim(
                "outliers",
                run.printed["outliers"],
                f"one value of {FAR:g} in a dimension of noise: it has "
                f"{_first(outlier)[6] ** 2:.1%} of the first component, before "
                f"{_first(Y)[6] ** 2:.1%}",
                holds=bool(_first(outlier)[6] ** 2 > 0.9),
            ),
            claim(
                "missing values",
                run.printed["missing"],
                f"without {HOLES:.0%} of the values the plane turns by {angle:.1f}°, and "
                f"{share_nearest(latent, labels):.0%} of points are nearest their own group "
                f"(complete: {share_nearest(complete.transform(Y), labels):.0%})",
                holds=bool(angle < 15 and share_nearest(latent, labels) > 0.8),
            ),
            claim(
                "missing values filled",
                run.printed["missing"],
                f"groups on a line: error {on_line[0]:.2f}, by column means {on_line[1]:.2f}",
                holds=on_line[0] < on_line[1],
            ),
        ),
        setting="Four groups in a square, and for filling three on a line; a tenth of the values "
        "at random are missing.",
        seed="0",
        figures={
            "Posterior means of the latent variables: complete data (left), with holes (right).": (
                _figure(complete.transform(Y), latent, labels)
            )
        },
        remarks=(
            "In the square no dimension tells of another, and there is nothing to fill holes with: "
            f"error {in_square[0]:.2f}, by column means {in_square[1]:.2f}.",
        ),
    )


def _with_holes(Y: np.ndarray) -> np.ndarray:
    there = np.random.default_rng(0).uniform(size=Y.shape) >= HOLES
    return np.where(there, Y, np.nan)


def _filling(centres) -> tuple[float, float]:
    """Root mean square errors of filled holes: by the model, and by column means."""
    Y, _ = grouped(centres, seed=0)
    holes = _with_holes(Y)
    model = VariationalPCA(2, prior="unit", random_state=0).fit(holes)
    missing = np.isnan(holes)
    fillings = (model.impute(holes), np.broadcast_to(np.nanmean(holes, axis=0), Y.shape))
    by_model, by_means = (_root_mean_square((filled - Y)[missing]) for filled in fillings)
    return by_model, by_means


def _first(Y: np.ndarray, **options) -> np.ndarray:
    """The first principal component."""
    return np.asarray(BayesianPCA("ml", n_components=2, **options).fit(Y).components_[0])


def _largest_angle(a: np.ndarray, b: np.ndarray) -> float:
    """Between two planes, in degrees."""
    cosines = np.linalg.svd(a @ b.T, compute_uv=False)
    return float(np.degrees(np.arccos(np.clip(cosines.min(), -1, 1))))


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _figure(complete: np.ndarray, latent: np.ndarray, labels: np.ndarray):
    figure, (left, right) = panels(2, width=3.6, height=3.4)
    scatter(left, complete, labels, xlabel="$t_1$", ylabel="$t_2$", title="complete")
    scatter(right, latent, labels, xlabel="$t_1$", ylabel="$t_2$", title="with holes")
    return figure

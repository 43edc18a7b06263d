"""Gaussian processes with a curved kernel: closed curves, a roll, and planes that need no curves.

A circle is seen through its harmonics, so that it lies in no plane; the roll is scikit-learn's
Swiss roll with three quarters of a turn, which were chosen because a whole turn is not found.
"""

from __future__ import annotations

import numpy as np

from bayespca import GPLVM, BayesianPCA
from bayespca.datasets import low_rank

from ..comparing import claim, shown
from ..records import Outcome, Run

N, NOISE = 400, 0.1
HARMONICS, FEATURES = 2, 10
TURN, HEIGHT = 0.75, 21.0
NEIGHBOURS = 10
SEEDS, QUICK_SEEDS = 3, 1


def circle(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows on a closed curve of ten dimensions with noise, and where on the circle they are."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, N)
    waves = [f(k * t) for k in range(1, HARMONICS + 1) for f in (np.cos, np.sin)]
    Y = np.stack(waves, axis=1) @ rng.normal(size=(2 * HARMONICS, FEATURES))
    return Y + NOISE * rng.normal(size=Y.shape), np.stack([np.cos(t), np.sin(t)], axis=1)


def roll(seed: int, turn: float = TURN) -> tuple[np.ndarray, np.ndarray]:
    """Rows on a rolled sheet with noise, and where on the sheet they are."""
    rng = np.random.default_rng(seed)
    t = np.pi * (1.5 + 2 * turn * rng.uniform(size=N))
    h = HEIGHT * rng.uniform(size=N)
    Y = np.stack([t * np.cos(t), h, t * np.sin(t)], axis=1)
    # Length along the spiral r = t.
    length = (t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2
    return Y + NOISE * rng.normal(size=Y.shape), np.stack([length, h], axis=1)


def kept(truth: np.ndarray, latent: np.ndarray) -> float:
    """How far near neighbours of the latent space are neighbours in truth: 1 where all are."""
    from sklearn.manifold import trustworthiness

    return float(trustworthiness(truth, latent, n_neighbors=NEIGHBOURS))


def tears(truth: np.ndarray, latent: np.ndarray) -> int:
    """Places where rows that follow each other on the circle are over a length scale apart."""
    order = np.argsort(np.arctan2(truth[:, 1], truth[:, 0]))
    along = latent[np.append(order, order[0])]
    return int(np.sum(np.linalg.norm(np.diff(along, axis=0), axis=1) > 1))


def plane(Y: np.ndarray) -> np.ndarray:
    """The first two principal components."""
    return np.asarray(BayesianPCA("ml", n_components=2).fit(Y).transform(Y))


def reproduce(run: Run) -> Outcome:
    seeds = range(QUICK_SEEDS if run.quick else SEEDS)
    on_circle = [_fitted(*circle(seed)) for seed in seeds]
    on_roll = [_fitted(*roll(seed)) for seed in seeds]
    whole = [_fitted(*roll(seed, turn=1.5)) for seed in seeds]
    pairs = [(seed, one[0]) for seed, one in zip(seeds, on_circle, strict=True)]
    flat = [GPLVM(random_state=0).fit(low_rank(200, 12, 3, random_state=seed).X) for seed in seeds]
    return Outcome(
        (
            _curved("circle", run.printed["circle"], on_circle, least=0.95),
            shown(
                "the circle is torn",
                f"at {_spread([tears(circle(i)[1], one.embedding_) for i, one in pairs])} places",
            ),
            _curved(f"roll of {TURN} turns", run.printed["roll"], on_roll, least=0.95),
            shown("roll of 1.5 turns", _told(whole)),
            claim(
                "low-rank data",
                run.printed["plane"],
                f"rank 3: {_spread([one.n_components_ for one in flat])} dimensions, and curves "
                f"are better by {_spread([one.nonlinear_evidence_ for one in flat])} nats",
                holds=all(one.nonlinear_evidence_ < 1 for one in flat),
            ),
        ),
        setting=f"{N} rows; a circle by its first {HARMONICS} harmonics in {FEATURES} features, a "
        f"roll in three; noise {NOISE}; and 200×12 of rank 3. Nothing is chosen. Neighbours: "
        f"trustworthiness of the {NEIGHBOURS} nearest.",
        seed=f"0 to {len(seeds) - 1}",
        figures={
            "The circle (above) and the roll (below) by principal components and by GPLVM, in "
            "units of length scales. Colours: place on the circle, length along the sheet.": (
                _figure(circle(0), on_circle[0], roll(0), on_roll[0])
            )
        },
        remarks=(
            "Principal components keep neighbours too where a curve does not come back to where "
            f"it was: {_spread([one[2] for one in on_circle], 3)} for the circle, "
            f"{_spread([one[2] for one in on_roll], 3)} for the roll.",
        ),
    )


def _fitted(Y: np.ndarray, truth: np.ndarray) -> tuple[GPLVM, float, float]:
    """The model, and how well it and a plane keep neighbours."""
    model = GPLVM(random_state=0).fit(Y)
    return model, kept(truth, np.asarray(model.embedding_)), kept(truth, plane(Y))


def _told(found) -> str:
    models = [one[0] for one in found]
    return (
        f"{_spread([one.n_components_ for one in models])} dimensions, curves are better by "
        f"{_spread([one.nonlinear_evidence_ for one in models])} nats, noise "
        f"{_spread([np.sqrt(one.noise_variance_) for one in models], 2)}, neighbours "
        f"{_spread([one[1] for one in found], 3)}"
    )


def _curved(what: str, printed: str, found, *, least: float):
    models = [one[0] for one in found]
    return claim(
        what,
        printed,
        _told(found),
        holds=all(one.nonlinear_evidence_ > 0 and one.n_components_ <= 2 for one in models)
        and all(one[1] > least for one in found),
    )


def _spread(values, digits: int = 0) -> str:
    """2 where all are, 1 to 2 where they differ."""
    low, high = (f"{value:.{digits}f}".replace("-", "−") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _figure(around, by_circle, rolled, by_roll):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 6.6), layout="constrained")
    for row, ((Y, truth), fitted) in enumerate(((around, by_circle), (rolled, by_roll))):
        place = np.arctan2(truth[:, 1], truth[:, 0]) if row == 0 else truth[:, 0]
        for column, title in enumerate(("principal components", "GPLVM")):
            ax = figure.add_subplot(2, 2, 2 * row + column + 1)
            latent, name = (plane(Y), "$x_2$") if column == 0 else _two(fitted[0], place)
            ax.scatter(*latent.T, c=place, s=9, cmap="hsv" if row == 0 else "viridis")
            ax.spines[["top", "right"]].set_visible(False)
            ax.set(title=title if row == 0 else None, xlabel="$x_1$", ylabel=name)
    return figure


def _two(model: GPLVM, place: np.ndarray) -> tuple[np.ndarray, str]:
    """Two dimensions and the name of the second; the true place where the model has but one."""
    latent = np.asarray(model.embedding_)[:, :2]
    if latent.shape[1] == 2:
        return latent, "$x_2$"
    return np.column_stack([latent, place]), "true place"

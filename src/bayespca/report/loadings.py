"""Loadings of components: cards with their main features, bars, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.estimators.summary import FittedPCA, feature_noise
from bayespca.estimators.wording import MINUS, percent

from .figures import JsonObject, feature_axis, numbers, plain

# Enough features to recognise a component, few enough to read.
CARDS, CARD_FEATURES = 6, 5
# Features of each sign on cards that show both ends.
END_FEATURES = 3
BAR_FEATURES, BAR_COMPONENTS = 20, 50
# Up to TABLE_ALL features are all in the table, of more only the largest TABLE_TOP.
TABLE_ALL, TABLE_TOP, TABLE_COMPONENTS = 500, 200, 10
# A loading within this many standard deviations of zero may be zero.
DOUBTFUL = 2.0


@dataclass(frozen=True)
class Bar:
    """One loading: the feature, its value as text, and its length in percent of the longest."""

    name: str
    value: str
    std: str | None
    size: float
    positive: bool
    doubtful: bool
    number: float = 0.0


@dataclass(frozen=True)
class Card:
    """One component, or one cluster, at a glance: a heading, bars, and remarks below them."""

    number: int
    heading: str
    bars: list[Bar]
    remarks: list[str]


@dataclass(frozen=True, eq=False)
class Directions:
    """Loadings of components on features, k×p, with standard deviations and shares of variance.

    `std` is zero if it is unknown. `noise` is the noise of each feature if features have their own.
    Cards show the largest loadings, or with `ends` the largest of each sign.
    """

    loadings: FloatArray
    std: FloatArray
    shares: FloatArray
    names: Sequence[str]
    noise: FloatArray | None = None
    of: str = "of the variance"
    row: str = "feature"
    ends: bool = False


def directions(model: FittedPCA, names: Sequence[str]) -> Directions:
    """The components of a PCA."""
    variances = feature_noise(model)
    return Directions(
        to_numpy(model.components_),
        to_numpy(model.components_std_),
        to_numpy(model.explained_variance_ratio_),
        names,
        None if variances is None else np.sqrt(variances),
    )


@dataclass(frozen=True)
class Row:
    """One feature in the table: its loadings, and its noise if features have their own."""

    name: str
    bars: list[Bar]
    noise: float | None = None


@dataclass(frozen=True)
class LoadingsTable:
    """The table of loadings, with the total numbers of features and components."""

    rows: list[Row]
    components: list[int]
    n_features: int
    n_components: int
    title: str = "Loadings"
    row: str = "feature"
    column: str = "component"

    @property
    def has_std(self) -> bool:
        return any(bar.std for row in self.rows for bar in row.bars)

    @property
    def has_noise(self) -> bool:
        return any(row.noise is not None for row in self.rows)


def signed(value: float, places: int) -> str:
    """A loading as text, without a sign if it rounds to zero."""
    text = f"{value:+.{places}f}".replace("-", MINUS)
    return text if text.strip("+0." + MINUS) else text[1:]


def spread(value: float, places: int) -> str | None:
    """A standard deviation as text; None if it is zero, for a point estimate."""
    if value == 0:
        return None
    if value < 0.5 * 10.0**-places:
        places += 1
    least = 10.0**-places
    return f"{value:.{places}f}" if value >= least / 2 else f"<{least:.{places}f}"


def places_for(longest: float) -> int:
    """Decimal places that give the largest loading two digits."""
    return 2 + max(0, int(-np.log10(longest))) if longest > 0 else 2


def _bar(name: str, value: float, std: float, longest: float) -> Bar:
    places = places_for(longest)
    return Bar(
        name=name,
        value=signed(value, places),
        std=spread(std, places),
        size=round(100 * abs(value) / longest, 1) if longest > 0 else 0.0,
        positive=bool(value >= 0),
        doubtful=bool(abs(value) < DOUBTFUL * std),
        number=round(float(value), 6),
    )


def cards(found: Directions, back: Sequence[str] = ()) -> list[Card]:
    """Cards of the first components, each with its largest loadings.

    `back` are the shares of half samples in which components reappear.
    """
    shown = []
    for h, (w, std) in enumerate(zip(found.loadings[:CARDS], found.std[:CARDS], strict=True)):
        order = _largest(w, CARD_FEATURES)
        if found.ends:
            # The most positive and the most negative loadings, in descending order.
            down = np.argsort(-w, kind="stable")
            above, below = down[w[down] > 0], down[w[down] < 0]
            order = np.concatenate([above[:END_FEATURES], below[-END_FEATURES:]])
        longest = float(np.abs(w).max())
        bars = [_bar(found.names[j], float(w[j]), float(std[j]), longest) for j in order]
        remarks = [f"Comes back in {back[h]} of the halves."] if back else []
        if order.size < w.size:
            covered = percent(float((w[order] ** 2).sum() / (w**2).sum()))
            remarks.append(f"These {order.size} {found.row}s make up {covered} of it.")
        heading = f"{percent(float(found.shares[h]))} {found.of}"
        shown.append(Card(h + 1, heading, bars, remarks))
    return shown


def bars(found: Directions) -> list[JsonObject]:
    """The largest loadings of each component, in the form that the script draws."""
    drawn: list[JsonObject] = []
    for w, std in zip(found.loadings[:BAR_COMPONENTS], found.std[:BAR_COMPONENTS], strict=True):
        order = _largest(w, BAR_FEATURES)
        names = [found.names[j] for j in order]
        drawn.append(
            {
                "x": numbers(w[order]),
                "std": numbers(std[order]),
                "text": [plain(name) for name in names],
                "axis": feature_axis(names),
            }
        )
    return drawn


def table(found: Directions) -> LoadingsTable | None:
    """Table of loadings in the first components, of all features or of those with the largest."""
    k, p = found.loadings.shape
    if k == 0 and found.noise is None:
        return None
    W, std = found.loadings[:TABLE_COMPONENTS], found.std[:TABLE_COMPONENTS]
    weight = np.abs(W).max(axis=0) if k else np.zeros(p)
    features = np.arange(p) if p <= TABLE_ALL else np.sort(_largest(weight, TABLE_TOP))
    longest = float(weight.max()) if k else 0.0
    rows = [
        Row(
            name=found.names[j],
            bars=[
                _bar(found.names[j], float(w), float(s), longest)
                for w, s in zip(W[:, j], std[:, j], strict=True)
            ],
            noise=None if found.noise is None else float(found.noise[j]),
        )
        for j in features.tolist()
    ]
    numbers_of = list(range(1, W.shape[0] + 1))
    return LoadingsTable(rows, numbers_of, p, k, "Loadings" if k else "Noise", found.row)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the largest magnitudes, largest first, ties in order."""
    return np.argsort(-np.abs(values), kind="stable")[:count]

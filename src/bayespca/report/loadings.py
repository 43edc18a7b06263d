"""What the components are made of: cards with their main features, bars, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators.summary import FittedPCA, feature_noise
from bayespca.estimators.wording import MINUS

from .embedding import JsonObject, numbers, plain
from .figures import feature_axis

# Enough to recognise a component by, few enough to read.
CARDS, CARD_FEATURES = 6, 5
BAR_FEATURES, BAR_COMPONENTS = 20, 50
# All features up to the first number, else the second; so many components side by side.
TABLE_ALL, TABLE_TOP, TABLE_COMPONENTS = 500, 200, 10
# A loading within so many standard deviations of zero may be zero.
DOUBTFUL = 2.0


@dataclass(frozen=True)
class Bar:
    """One loading: the feature, its value as text, its length in percent of the longest."""

    name: str
    value: str
    std: str | None
    size: float
    positive: bool
    doubtful: bool
    number: float = 0.0


@dataclass(frozen=True)
class Card:
    """One component at a glance; `covered` is the share of it that the bars make up."""

    number: int
    share: float
    bars: list[Bar]
    covered: float


@dataclass(frozen=True)
class Row:
    """One feature in the table: its loadings, and its noise where it has its own."""

    name: str
    bars: list[Bar]
    noise: float | None
    strength: float


@dataclass(frozen=True)
class LoadingsTable:
    """The table of loadings, and how much of everything it shows."""

    rows: list[Row]
    components: list[int]
    n_features: int
    n_components: int

    @property
    def has_std(self) -> bool:
        return any(bar.std for row in self.rows for bar in row.bars)

    @property
    def has_noise(self) -> bool:
        return any(row.noise is not None for row in self.rows)


def signed(value: float, places: int) -> str:
    """A loading, with no sign where it rounds to zero."""
    text = f"{value:+.{places}f}".replace("-", MINUS)
    return text if text.strip("+0." + MINUS) else text[1:]


def spread(value: float, places: int) -> str | None:
    """A standard deviation; None where it is zero: the loadings are point estimates."""
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


def cards(model: FittedPCA, names: Sequence[str]) -> list[Card]:
    """The first components, each with the features that weigh most in it."""
    W, std = to_numpy(model.components_), to_numpy(model.components_std_)
    shares = to_numpy(model.explained_variance_ratio_)
    found = []
    for h in range(min(CARDS, W.shape[0])):
        order = _largest(W[h], CARD_FEATURES)
        longest = float(np.abs(W[h]).max())
        bars = [_bar(names[j], float(W[h, j]), float(std[h, j]), longest) for j in order]
        found.append(Card(h + 1, float(shares[h]), bars, float((W[h, order] ** 2).sum())))
    return found


def bars(model: FittedPCA, names: Sequence[str]) -> list[JsonObject]:
    """For each component the features that weigh most, as the script draws them."""
    W, std = to_numpy(model.components_), to_numpy(model.components_std_)
    found = []
    for h in range(min(BAR_COMPONENTS, W.shape[0])):
        order = _largest(W[h], BAR_FEATURES)
        found.append(
            {
                "x": numbers(W[h, order]),
                "std": numbers(std[h, order]),
                "text": [plain(names[j]) for j in order],
                "axis": feature_axis([names[j] for j in order]),
            }
        )
    return found


def table(model: FittedPCA, names: Sequence[str]) -> LoadingsTable | None:
    """Loadings of all features, or of those that weigh most in the components shown."""
    W, std = to_numpy(model.components_), to_numpy(model.components_std_)
    k, p = W.shape
    variances = feature_noise(model)
    if k == 0 and variances is None:
        return None
    noise = None if variances is None else np.sqrt(variances)
    W, std = W[:TABLE_COMPONENTS], std[:TABLE_COMPONENTS]
    weight = np.abs(W).max(axis=0) if k else np.zeros(p)
    features = np.arange(p) if p <= TABLE_ALL else np.sort(_largest(weight, TABLE_TOP))
    longest = float(weight.max()) if k else 0.0
    rows = [
        Row(
            name=names[j],
            bars=[
                _bar(names[j], float(w), float(s), longest)
                for w, s in zip(W[:, j], std[:, j], strict=True)
            ],
            noise=None if noise is None else float(noise[j]),
            strength=float(weight[j]),
        )
        for j in features.tolist()
    ]
    return LoadingsTable(rows, list(range(1, W.shape[0] + 1)), p, k)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the largest magnitudes, largest first, ties in order."""
    return np.argsort(-np.abs(values), kind="stable")[:count]

"""The page of mixtures: the clusters, and how certain the cluster of each row is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import MINUS, feature_names, percent, plural, significant

from . import parts
from .figures import Figure, axis, bars, numbers
from .loadings import CARD_FEATURES, Bar, Card, LoadingsTable, Row
from .scores import Samples

# Most clusters shown as cards, columns of the table of means, and axes for the plot of samples.
CARDS, COLUMNS, AXES = 12, 10, 5
# Most rows of the table of means.
ROWS = 500
# The cluster of a row is certain from this probability on.
SURE = 0.9


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters: the means of features in each, their standard deviations, and the weights.

    `unit` is the unit for differences in each feature, `remarks` are shown below each card. Means
    of binary features are probabilities of 1.
    """

    means: FloatArray
    std: FloatArray
    weights: FloatArray
    unit: FloatArray
    names: list[str]
    remarks: list[list[str]]
    is_binary: bool

    @cached_property
    def away(self) -> FloatArray:
        """Differences of the means of each cluster from those of all rows, in units."""
        return (self.means - self.weights @ self.means) / self.unit

    def bar(self, k: int, j: int) -> Bar:
        """The mean of a feature in a cluster, with as many digits as its unit justifies."""
        value, std, away = float(self.means[k, j]), float(self.std[k, j]), float(self.away[k, j])
        places = int(np.clip(1 - np.floor(np.log10(float(self.unit[j]))), 0, 12))
        rounded = round(value, places)
        words = f"{rounded:.{places}f}".replace("-", MINUS)
        if abs(rounded) >= 1000:
            words = significant(value)
        return Bar(
            name=self.names[j],
            value=percent(value) if self.is_binary else words,
            std=percent(std) if std > 0 else None,
            size=round(100 * abs(away) / (float(np.abs(self.away).max()) or 1.0), 1),
            positive=away >= 0,
            doubtful=False,
            number=value,
        )


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `PCAMixture` or `BernoulliMixture`."""
    found = _clusters(model)
    account, where, sure = findings_of(model), None, None
    weights = [
        parts.StripPart(str(k + 1), float(w), f"cluster {k + 1}")
        for k, w in enumerate(found.weights)
    ]
    shares: list[float] = []
    if X is not None:
        probability = np.asarray(model.predict_proba(X), dtype=np.float64)
        account = replace(account, size=f"{plural(len(probability), 'sample')} × {account.size}")
        # Rows in the plane of largest variance, coloured by cluster.
        filled = np.asarray(model.impute(X), dtype=np.float64)
        U, gamma, _ = np.linalg.svd(filled - filled.mean(axis=0), full_matrices=False)
        k = min(AXES, int(np.count_nonzero(gamma > 1e-12 * gamma.max(initial=0.0))))
        total = float((gamma**2).sum()) or 1.0
        shares = [float(g**2 / total) for g in gamma[:k]]
        labels = [f"cluster {c + 1}" for c in probability.argmax(axis=1)]
        known: Samples = {"labels": labels, "labels_name": "cluster", **samples}
        where = parts.where({**known, "scores": U[:, :k] * gamma[:k]})
        if len(found.weights) > 1:
            share = percent(float((probability.max(axis=1) >= SURE).mean()))
            more = f"{share} of the rows are in their cluster with a probability of at least 90 %."
            account = replace(account, lead=f"{account.lead} {more}".strip())
            sure = _sure(probability)
    return parts.content(
        model,
        (_cards(found), where, sure, _table(found)),
        account=account,
        strip=parts.Strip(weights, "Share of the rows in each cluster", "The rows, by cluster."),
        shares=shares,
        details=details,
    )


def _clusters(model: Any) -> Clusters:
    means, weights = (
        np.asarray(to_numpy(a), dtype=np.float64) for a in (model.means_, model.weights_)
    )
    names = feature_names(model)
    if hasattr(model, "means_std_"):
        std = np.asarray(to_numpy(model.means_std_), dtype=np.float64)
        none: list[list[str]] = [[] for _ in weights]
        return Clusters(means, std, weights, np.ones(len(names)), names, none, is_binary=True)
    noise = np.asarray(to_numpy(model.noise_variances_), dtype=np.float64).reshape(len(means), -1)
    between = weights @ (means - weights @ means) ** 2
    unit = np.sqrt(between + weights @ np.broadcast_to(noise, means.shape))
    remarks = []
    for rank, variances in zip(to_numpy(model.ranks_).tolist(), noise, strict=True):
        level = significant(float(np.sqrt(variances.mean())), 2)
        remarks.append([f"{plural(int(rank), 'dimension')} of its own, noise {level}."])
    unit = np.where(unit > 0, unit, 1.0)
    return Clusters(means, np.zeros_like(means), weights, unit, names, remarks, is_binary=False)


def _cards(found: Clusters) -> parts.Section:
    K, cards = len(found.weights), []
    for k, w in enumerate(found.weights[:CARDS]):
        order = np.argsort(-np.abs(found.away[k]), kind="stable")[:CARD_FEATURES]
        largest = [found.bar(k, j) for j in order.tolist()]
        cards.append(Card(k + 1, f"{percent(float(w))} of the rows", largest, found.remarks[k]))
    what = "probability of 1" if found.is_binary else "mean"
    text = (
        f"The {what} of the features in which each cluster differs most from all rows: bars to the "
        "right are above the average, bars to the left below."
    )
    if len(cards) < K:
        text += f" The first {len(cards)} of {K} are shown."
    return parts.Section("clusters", "What the clusters are", text, cards=cards)


def _table(found: Clusters) -> parts.Section:
    """Table of the means in each cluster, of all features or of those that differ most."""
    K, shown = len(found.weights), range(min(COLUMNS, len(found.weights)))
    order = np.argsort(-np.abs(found.away).max(axis=0), kind="stable")
    rows = [
        Row(found.names[j], [found.bar(k, j) for k in shown])
        for j in np.sort(order[:ROWS]).tolist()
    ]
    title = "Probability of 1 in each cluster" if found.is_binary else "Mean of each cluster"
    numbered = [k + 1 for k in shown]
    table = LoadingsTable(rows, numbered, len(found.names), K, title, column="cluster")
    return parts.Section("features", "Every feature", table=table)


def _sure(probability: FloatArray) -> parts.Section:
    """Section with a histogram of the probability of each row's most probable cluster."""
    most = probability.max(axis=1)
    counts, edges = np.histogram(most, bins=20, range=(0.0, 1.0))
    centers = (edges[1:] + edges[:-1]) / 2
    hover = "%{y} rows near %{x:.0%}"
    drawn = bars(numbers(centers), counts.tolist(), "@accent", hover, width=0.05)
    layout = {
        "xaxis": axis("probability of a row's cluster", tickformat=".0%", dtick=0.2, range=[0, 1]),
        "yaxis": axis("number of rows", rangemode="tozero"),
        "bargap": 0.05,
    }
    caption = (
        "Rows near 100 % leave no doubt which cluster they are in; others lie between clusters."
    )
    figure = Figure(
        "memberships", "How sure rows are of their cluster", caption, [drawn], layout, 300
    )
    return parts.Section("sure", "How sure that is", figures=[figure])

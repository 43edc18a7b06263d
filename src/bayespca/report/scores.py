"""Scores of samples, in the form in which the page draws any two components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from bayespca.arrays.types import Input

from .figures import JsonObject, as_numpy, numbers, plain

MAX_POINTS = 10_000
# Most numbers in the file: points times components.
MAX_NUMBERS = 120_000
MAX_COMPONENTS = 50
# Most colours that can be told apart; numeric labels with more values get a colour scale.
MAX_GROUPS = 9
OTHER, MISSING = "other", "no label"


@dataclass(frozen=True)
class Scores:
    """Scores in the form in which the page draws them.

    `drawing` is for the script; the counts are for the sentence on what is left out.
    """

    drawing: JsonObject
    n_samples: int
    n_points: int
    n_components: int


class Samples(TypedDict, total=False):
    """Options about samples: `scores`, and names and labels of their rows."""

    scores: Input
    scores_std: Input
    sample_names: Sequence[object] | None
    labels: Sequence[object] | None
    labels_name: str | None


def with_scores(model: Any, X: Input, samples: Samples) -> Samples:
    """The samples, with the scores of X unless scores are given."""
    if X is None or samples.get("scores") is not None:
        return samples
    scores, std = model.transform(X, return_std=True)
    return {**samples, "scores": scores, "scores_std": std}


def read_scores(
    scores: Input = None,
    scores_std: Input = None,
    sample_names: Sequence[object] | None = None,
    labels: Sequence[object] | None = None,
    labels_name: str | None = None,
) -> Scores | None:
    """Scores of at most `MAX_POINTS` samples; None if there is nothing to draw."""
    if scores is None:
        return None
    names = None if sample_names is None else list(sample_names)
    T = _matrix(scores)
    n, k = T.shape
    S = None if scores_std is None else _matrix(scores_std)
    if S is not None and S.shape != T.shape:
        raise ValueError(f"scores have shape {T.shape}, but scores_std has {S.shape}.")
    for what, items in (("sample_names", names), ("labels", labels)):
        if items is not None and len(items) != n:
            raise ValueError(f"there are {n} rows of scores, but {len(items)} {what}.")
    if n == 0 or k == 0:
        return None
    chosen = np.arange(n)
    if n > MAX_POINTS:
        # The same rows every time, in order.
        chosen = np.sort(np.random.default_rng(0).choice(n, MAX_POINTS, replace=False))
    shown = min(k, MAX_COMPONENTS, max(2, MAX_NUMBERS // chosen.size))
    drawing = {
        "components": [numbers(T[chosen, h]) for h in range(shown)],
        "std": None if S is None else [numbers(S[chosen, h], 3) for h in range(shown)],
        "index": chosen.tolist(),
        "names": None if names is None else [plain(str(names[i])) for i in chosen.tolist()],
        "labels": None if labels is None else _labels(labels, chosen),
        "labelsName": plain(labels_name or "label"),
    }
    return Scores(drawing, n, int(chosen.size), shown)


def _matrix(values: Input) -> np.ndarray:
    array = np.asarray(as_numpy(values), dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"scores must be a table of samples and components, got {array.shape}.")
    return array


def _labels(labels: Sequence[object], chosen: np.ndarray) -> JsonObject:
    """Labels as groups with a colour each, or as numbers on a colour scale."""
    items = as_numpy(labels)
    if items.dtype.kind in "iufb" and np.unique(items).size > MAX_GROUPS:
        return {"values": numbers(items[chosen].astype(np.float64))}
    texts = [_label(item) for item in items.tolist()]
    count = Counter(texts)
    groups = sorted(count, key=_as_people_sort)
    if len(groups) > MAX_GROUPS:
        common = {name for name, _ in count.most_common(MAX_GROUPS - 1)}
        groups = [*(name for name in groups if name in common), OTHER]
    place = {name: g for g, name in enumerate(groups)}
    codes = [place.get(texts[i], len(groups) - 1) for i in chosen.tolist()]
    return {
        "groups": [plain(name) for name in groups],
        "codes": codes,
        "texts": None if groups[-1] != OTHER else [plain(texts[i]) for i in chosen.tolist()],
    }


def _label(item: object) -> str:
    if item is None or (isinstance(item, float) and np.isnan(item)):
        return MISSING
    if isinstance(item, float) and item.is_integer():
        return str(int(item))
    return str(item)


def _as_people_sort(text: str) -> tuple[bool, float, str]:
    """Sorting key: numbers by size, then text alphabetically."""
    try:
        return (False, float(text), text)
    except ValueError:
        return (True, 0.0, text)

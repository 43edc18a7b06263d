"""Models fitted to simulated data, and how far off their answers are, in their standard deviations.

Each study draws data with a seed, fits a model, and returns errors by what they are errors of. It
is the truth that differs:

* components: the principal axes of the distribution that rows are drawn from, matched by their
  cosines, signs too;
* scores: coordinates of a row without noise along the components that were found;
* cells, measured: what would be measured in a hole; cells, without noise: the same less the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayespca import (
    BayesianPCA,
    BayesianTucker,
    BernoulliMixture,
    BinaryPCA,
    GibbsPCA,
    MatrixFactorization,
    VariationalPCA,
)
from bayespca.datasets import low_rank_tensor

COMPONENTS, SCORES = "components", "scores"
MEASURED, NOISELESS = "cells, measured", "cells, without noise"
NEW_MEASURED, NEW_NOISELESS = "new rows, measured", "new rows, without noise"
NEW_SCORES = "new rows, scores"
PARTS = (COMPONENTS, SCORES, NEW_SCORES, MEASURED, NOISELESS, NEW_MEASURED, NEW_NOISELESS)
# Rows that the fit has not seen, and the share of their cells that is missing.
NEW_ROWS, NEW_HOLES = 20, 0.5

Errors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Study:
    """A model, words for the data, and the errors on those that a seed draws.

    `share` is how many times as many data sets as usual it is run on: small ones tell little each.
    """

    model: str
    data: str
    errors: Callable[[int], Errors]
    share: float = 1.0


@dataclass(frozen=True)
class Population:
    """Rows N(mean, W diag(variances) Wᵀ + I), strengths in units of the detection limit √(p/n)."""

    n: int
    p: int
    strengths: tuple[float, ...]
    holes: float = 0.0

    def drawn(self, seed: int) -> Sample:
        rng = np.random.default_rng(seed)
        k = len(self.strengths)
        W = np.linalg.qr(rng.standard_normal((self.p, k)))[0].T
        std = np.sqrt(np.array(self.strengths) * np.sqrt(self.p / (self.n - 1)))
        mean = rng.standard_normal(self.p)
        signal = mean + (rng.standard_normal((self.n + NEW_ROWS, k)) * std) @ W
        X = signal + rng.standard_normal(signal.shape)
        missing = np.repeat([self.holes, NEW_HOLES], [self.n, NEW_ROWS])
        return Sample(self.n, mean, W, signal, X, rng.random(X.shape) >= missing[:, None])


@dataclass(frozen=True)
class Sample:
    """Rows that are fitted, then new ones; their signals and holes; the axes W and the mean."""

    n: int
    mean: np.ndarray
    W: np.ndarray
    signal: np.ndarray
    X: np.ndarray
    seen: np.ndarray

    @property
    def fitted(self) -> np.ndarray:
        return self.with_holes[: self.n]

    @property
    def with_holes(self) -> np.ndarray:
        return np.where(self.seen, self.X, np.nan)


def of_population(model: Callable[[], Any], population: Population) -> Callable[[int], Errors]:
    """Errors of every standard deviation that a PCA returns."""

    def errors(seed: int) -> Errors:
        sample = population.drawn(seed)
        fit = model().fit(sample.fitted)
        old, new = np.arange(len(sample.X)) < sample.n, np.arange(len(sample.X)) >= sample.n
        found = {COMPONENTS: of_components(fit, sample.W), SCORES: _of_scores(fit, sample, old)}
        if hasattr(fit, "impute"):
            found[NEW_SCORES] = _of_scores(fit, sample, new)
            found |= _of_cells(fit, sample, new, NEW_MEASURED, NEW_NOISELESS)
            if population.holes:
                found |= _of_cells(fit, sample, old, MEASURED, NOISELESS)
        if isinstance(fit, GibbsPCA):
            found |= _of_parameters(fit, population, sample)
        return found

    return errors


def of_components(fit: Any, W: np.ndarray) -> np.ndarray:
    """Errors of the entries of axes, each beside the component that is most like it."""
    cosines = fit.components_ @ W.T
    found, true = linear_sum_assignment(-np.abs(cosines))
    signs = np.sign(cosines[found, true])[:, None]
    errors = fit.components_[found] - signs * W[true]
    return np.ravel(errors / fit.components_std_[found])


def _of_scores(fit: Any, sample: Sample, rows: np.ndarray) -> np.ndarray:
    scores, std = fit.transform(sample.with_holes[rows], return_std=True)
    truth = (sample.signal[rows] - fit.mean_) @ fit.components_.T
    return np.ravel((scores - truth) / std)


def _of_cells(fit: Any, sample: Sample, rows: np.ndarray, measured: str, noiseless: str) -> Errors:
    X, holes = sample.with_holes[rows], ~sample.seen[rows]
    filled, std = fit.impute(X, return_std=True)
    _, of_mean = fit.impute(X, return_std="mean")
    return {
        measured: (filled - sample.X[rows])[holes] / std[holes],
        noiseless: (filled - sample.signal[rows])[holes] / of_mean[holes],
    }


def _of_parameters(fit: GibbsPCA, population: Population, sample: Sample) -> Errors:
    k = min(fit.n_components_, len(population.strengths))
    limit = np.sqrt(population.p / (population.n - 1))
    variances = limit * np.array(population.strengths)[:k]
    return {
        "noise variance": np.array([(fit.noise_variance_ - 1) / fit.noise_variance_std_]),
        "signal variances": (fit.signal_variance_[:k] - variances) / fit.signal_variance_std_[:k],
        "means": (fit.mean_ - sample.mean) / fit.mean_std_,
    }


# --- tensors, ratings, zeros and ones ----------------------------------------------------------


def of_tensors(
    sizes: tuple[int, ...], ranks: tuple[int, ...], holes: float, snr: float
) -> Callable[[int], Errors]:
    def errors(seed: int) -> Errors:
        made = low_rank_tensor(sizes, ranks, snr=snr, random_state=seed)
        hidden = np.random.default_rng((seed, 1)).random(sizes) < holes
        fit = BayesianTucker().fit(np.where(hidden, np.nan, made.T))
        filled, std = fit.impute(return_std=True)
        return {MEASURED: (filled - made.T)[hidden] / std[hidden]}

    return errors


def of_ratings(n: int, p: int, strengths: Sequence[float], holes: float) -> Callable[[int], Errors]:
    """Ratings that are missing, those of new users, and factors."""

    def errors(seed: int) -> Errors:
        rng, k = np.random.default_rng(seed), len(strengths)
        users = rng.standard_normal((n + NEW_ROWS, k)) * np.sqrt(np.array(strengths))
        signal = users @ rng.standard_normal((k, p)) + rng.standard_normal(p)
        signal += rng.standard_normal((n + NEW_ROWS, 1))
        X = signal + rng.standard_normal(signal.shape)
        seen = rng.random(signal.shape) >= holes
        rows, columns = np.nonzero(seen[:n])
        fit = MatrixFactorization().fit_ratings(rows, columns, X[rows, columns])
        known = np.isin(np.arange(n), fit.users_)[:, None] & np.isin(np.arange(p), fit.items_)
        gone = np.nonzero(~seen[:n] & known)
        found = _of_ratings(lambda way: fit.predict(*gone, way), X[gone], signal[gone])
        return (
            dict(zip((MEASURED, NOISELESS), found, strict=True))
            | _of_new_users(fit, X[n:], signal[n:], seen[n:])
            | {"factors": _of_factors(fit, signal)}
        )

    return errors


def _of_ratings(predict: Callable[[Any], Any], X: np.ndarray, signal: np.ndarray) -> list[Any]:
    pairs = [(*predict(way), truth) for way, truth in ((True, X), ("mean", signal))]
    return [(found - truth) / std for found, std, truth in pairs]


def _of_new_users(fit: Any, X: np.ndarray, signal: np.ndarray, seen: np.ndarray) -> Errors:
    found = []
    for x, clean, there in zip(X, signal, seen, strict=True):
        given, wanted = (np.intersect1d(fit.items_, np.flatnonzero(one)) for one in (there, ~there))
        found.append(
            _of_ratings(
                lambda way, g=given, w=wanted, x=x: fit.predict_new(g, x[g], w, way),
                x[wanted],
                clean[wanted],
            )
        )
    measured, noiseless = (np.concatenate(part) for part in zip(*found, strict=True))
    return {NEW_MEASURED: measured, NEW_NOISELESS: noiseless}


def _of_factors(fit: MatrixFactorization, signal: np.ndarray) -> np.ndarray:
    """Those of users: coordinates along the factors of the items, beside the user's bias."""
    rest = signal[np.ix_(fit.users_, fit.items_)] - fit.mean_ - fit.item_biases_
    design = np.column_stack([fit.item_factors_, np.ones(fit.items_.size)])
    truth = np.linalg.lstsq(design, rest.T)[0].T[:, :-1]
    return np.ravel((fit.user_factors_ - truth) / fit.user_factors_std_)


def of_bits(n: int, p: int, size: float, holes: float) -> Callable[[int], Errors]:
    """Scores in the space of logits."""

    def errors(seed: int) -> Errors:
        rng = np.random.default_rng(seed)
        W = np.linalg.qr(rng.standard_normal((p, 2)))[0].T
        scores = rng.standard_normal((n, 2)) * size * np.sqrt(p) * np.array([1.0, 0.6])
        logits = scores @ W + 0.5 * rng.standard_normal(p)
        X = (rng.random((n, p)) < 1 / (1 + np.exp(-logits))).astype(float)
        X[rng.random((n, p)) < holes] = np.nan
        fit = BinaryPCA().fit(X)
        found, std = fit.transform(X, return_std=True)
        truth = (logits - fit.mean_) @ fit.components_.T
        return {SCORES: np.ravel((found - truth) / std)}

    return errors


def of_clusters(n: int, p: int) -> Callable[[int], Errors]:
    """Probabilities of three clusters, each beside the one that is most like it.

    Two that were drawn and are found as one are none of these: such data sets are not counted.
    """

    def errors(seed: int) -> Errors:
        rng = np.random.default_rng(seed)
        means = rng.beta(1, 1, (3, p))
        X = (rng.random((n, p)) < means[rng.integers(3, size=n)]).astype(float)
        fit = BernoulliMixture(3, n_init=5, random_state=0).fit(X)
        if len(fit.means_) < len(means):
            return {}
        distance = ((fit.means_[:, None] - means) ** 2).sum(axis=2)
        found, true = linear_sum_assignment(distance)
        errors = (fit.means_[found] - means[true]) / fit.means_std_[found]
        return {"probabilities": errors.ravel()}

    return errors


# --- what is tried -----------------------------------------------------------------------------

SHAPES = ((60, 30), (25, 12), (200, 15), (40, 90))
# How many times as many data sets, so that shares are certain to about one per cent.
TIMES = {(25, 12): 3.0, (60, 30): 1.5, (40, 90): 1.5}
# So many times more where half of the cells are missing: few data sets keep a weak component then.
TIMES_WITH_HOLES = {(25, 12): 6.0, (60, 30): 4.0}
STRENGTHS = {"apart": (40.0, 16.0, 6.0), "close": (20.0, 15.0, 10.0), "weak": (8.0, 4.0, 2.0)}
HOLES = (0.0, 0.1, 0.5)
RATED = ((60, 40, 0.5), (60, 40, 0.8), (100, 60, 0.5), (100, 60, 0.8), (300, 100, 0.8))


def studies() -> list[Study]:
    return [
        *_of_populations("BayesianPCA", BayesianPCA, HOLES),
        *_of_populations("VariationalPCA", VariationalPCA, (0.0, 0.5)),
        *_of_populations("GibbsPCA", _sampled, (0.0,), share=1.5)[3:9],
        *_of_tensors(),
        *_of_other_data(),
    ]


def _sampled() -> GibbsPCA:
    return GibbsPCA(n_chains=2, n_draws=500, random_state=0)


def _of_populations(
    name: str, model: Callable[[], Any], holes: Sequence[float], share: float = 1.0
) -> list[Study]:
    return [
        Study(
            name,
            f"{n}×{p}, {words}, {gone:.0%} missing" if gone else f"{n}×{p}, {words}",
            of_population(model, Population(n, p, strengths, gone)),
            share * _times((n, p), gone),
        )
        for n, p in SHAPES
        for words, strengths in STRENGTHS.items()
        for gone in holes
    ]


def _times(shape: tuple[int, int], gone: float) -> float:
    return TIMES.get(shape, 1.0) * (TIMES_WITH_HOLES.get(shape, 1.0) if gone >= 0.5 else 1.0)


def _of_tensors() -> list[Study]:
    return [
        Study(
            "BayesianTucker",
            f"{'×'.join(map(str, sizes))}, rank 2×2×2, SNR {snr:g}, {holes:.0%} missing",
            of_tensors(sizes, (2, 2, 2), holes, snr),
            0.3,
        )
        for sizes in ((12, 11, 10), (20, 15, 8))
        for snr in (4.0, 0.5)
        for holes in (0.2, 0.5, 0.8)
    ]


def _of_other_data() -> list[Study]:
    return [
        *(
            Study(
                "MatrixFactorization",
                f"{n}×{p}, {holes:.0%} missing",
                of_ratings(n, p, (2.0, 1.0), holes),
            )
            for n, p, holes in RATED
        ),
        *(
            Study("BinaryPCA", f"{n}×{p}, {holes:.0%} missing", of_bits(n, p, 1.0, holes))
            for n, p in ((100, 30), (400, 20))
            for holes in (0.0, 0.3)
        ),
        *(
            Study("BernoulliMixture", f"{n}×{p}", of_clusters(n, p), 5.0)
            for n, p in ((60, 20), (300, 10))
        ),
    ]

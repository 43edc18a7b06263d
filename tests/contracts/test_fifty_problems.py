"""On fifty random problems per model, accelerated fits end where plain ones do, or lower."""

from __future__ import annotations

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from bayespca import (
    BayesianPCA,
    BinaryPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
)
from bayespca.discrete.fit import BinaryModel
from bayespca.inference import FreeEnergyWarning
from bayespca.linear.sweeps.fit import SweepModel
from bayespca.linear.variational.fit import VariationalModel
from bayespca.missing.dense.fit import DenseModel
from bayespca.missing.ratings.fit import RatingsModel
from bayespca.missing.variational.fit import VariationalHolesModel
from bayespca.mixtures.pca.fit import MixtureModel
from cases import EVERY_CASE

TOL = 1e-8
# Plain steps need a smaller tolerance, because they stop wherever they are slow.
PLAIN = {"tol": 1e-12, "max_iter": 20_000}
PROBLEMS = 50
# Some of each kind do, because all of them take ten minutes.
KINDS = ("low rank", "near-full rank", "noise-free", "90 % holes", "any unit")


def problem(seed):
    """Kind, matrix and mask of holes; every row and every column has an observed cell."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    n, p = int(rng.integers(20, 120)), int(rng.integers(5, 25))
    k, noise = int(rng.integers(1, max(2, min(n, p) // 2))), float(10 ** rng.uniform(-1, 0.5))
    share, unit = float(rng.uniform(0.02, 0.4)), 1.0
    if kind == "near-full rank":
        k = max(1, min(n, p) - 2)
    elif kind == "noise-free":
        noise = 0.0
    elif kind == "90 % holes":
        share, n = 0.9, 3 * n
    elif kind == "any unit":
        unit = (1e-100, 1.0, 1e100)[seed % 3]
    scores = rng.normal(size=(n, k)) * np.exp(-np.arange(k) / max(k / 2, 1))
    X = unit * (scores @ rng.normal(size=(k, p)) + noise * rng.normal(size=(n, p)))
    holes = rng.random(X.shape) < share
    holes[np.arange(n), rng.integers(0, p, n)] = False
    holes[rng.integers(0, n, p), np.arange(p)] = False
    return kind, X, holes


def by_sweeps(method, **options):
    return BayesianPCA(method, solver="iterative", noise="isotropic", random_state=0, **options)


def of_noise(noise, **options):
    return BayesianPCA(noise=noise, **options)


# The model whose chart is removed, the estimator, and whether the data have holes.
MODELS = {
    "EVB by sweeps": (SweepModel, partial(by_sweeps, "evb"), False),
    "EPB by sweeps": (SweepModel, partial(by_sweeps, "epb"), False),
    "EMAP by sweeps": (SweepModel, partial(by_sweeps, "emap"), False),
    "maximum likelihood by sweeps": (SweepModel, partial(by_sweeps, "ml", n_components=3), False),
    "Bishop's": (VariationalModel, partial(VariationalPCA, random_state=0), False),
    "Bishop's, with holes": (
        VariationalHolesModel,
        partial(VariationalPCA, random_state=0),
        True,
    ),
    "holes": (DenseModel, partial(of_noise, "isotropic"), True),
    "holes, noise of features": (DenseModel, partial(of_noise, "per-feature"), True),
}
# Accelerated fits stop when their estimated gain is small; plain steps go on much longer.
SAME = 10 * TOL
# With holes and without noise, the free energy has no minimum and keeps falling. Rounding decides
# where a fit stops: gaps of up to 2e-4 were seen, depending on the version of NumPy. With noise per
# feature, both fits end where rounding takes over, which is not the same place.
FLAT = {
    ("holes", "noise-free"): 1e-3,
    ("holes, noise of features", "noise-free"): np.inf,
}


class End(NamedTuple):
    """The end of a fit. `lowest`, the least free energy of its steps, is in the units of `tol`."""

    free_energy: float
    rank: int
    steps: int
    lowest: float


def ended(estimator, X):
    seen = []
    estimator.fit(X, callback=lambda number, info: seen.append(info.free_energy))
    return End(estimator.free_energy_, estimator.n_components_, len(seen), min(seen))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_no_worse_end_and_fewer_steps(name, monkeypatch):
    model, estimator, has_holes = MODELS[name]
    steps = np.zeros(2)
    for seed in range(0, PROBLEMS, 1 if EVERY_CASE else 7):
        kind, X, holes = problem(seed)
        # Bishop's priors are in the units of the data.
        X = X / X.std() if estimator.func is VariationalPCA else X
        X = np.where(holes, np.nan, X) if has_holes else X
        quick = ended(estimator(tol=TOL), X)
        with monkeypatch.context() as patched:
            patched.setattr(model, "chart", lambda self, data: None)
            plain = ended(estimator(**PLAIN), X)
        gap = (quick.free_energy - plain.free_energy) / (abs(plain.lowest) + 1)
        assert gap <= FLAT.get((name, kind), SAME), (seed, kind)
        assert kind != "noise-free" or quick.rank == plain.rank, seed
        steps += quick.steps, plain.steps
    assert steps[0] < steps[1]


# --- ratings, bits and clusters ----------------------------------------------------------------


def bits(X):
    return (np.median(X, axis=0) < X).astype(float)


def clusters(seed):
    """Rows of a problem scattered around three means, and the mask of its holes."""
    rng, (_, X, holes) = np.random.default_rng(seed), problem(seed)
    means = 3 * rng.normal(size=(3, X.shape[1]))
    return X / X.std() + means[rng.integers(0, 3, len(X))], holes


def fit_ratings(method, seed, callback, noise="auto", **options):
    """Fit ratings with `noise` as a share of the variance; EPB would take it from another fit."""
    _, X, holes = problem(seed)
    i, j = np.nonzero(~holes)
    variance = noise if noise == "auto" else noise * float(X.var())
    model = MatrixFactorization(method, noise_variance=variance, **options)
    model.fit_ratings(i, j, X[i, j], callback=callback)


def fit_bits(seed, callback, **options):
    BinaryPCA(**options).fit(bits(problem(seed)[1]), callback=callback)


def fit_bits_with_holes(seed, callback, **options):
    _, X, holes = problem(seed)
    BinaryPCA(**options).fit(np.where(holes, np.nan, bits(X)), callback=callback)


def fit_clusters_with_holes(seed, callback, **options):
    X = np.where(clusters(seed)[1], np.nan, clusters(seed)[0])
    PCAMixture(3, random_state=0, **options).fit(X, callback=callback)


class Case(NamedTuple):
    """The model whose chart is removed, and the function that fits it to some of the problems:
    those at every `every[0]`-th seed, or at every `every[1]`-th to save time.

    `max_iter` limits plain steps, which would otherwise take too long.
    """

    model: type
    fit: partial
    every: tuple[int, int]
    max_iter: int = 20_000

    @property
    def seeds(self):
        return range(0, PROBLEMS, self.every[0] if EVERY_CASE else self.every[1])


CASES = {
    "ratings": Case(RatingsModel, partial(fit_ratings, "evb"), (7, 19), 1000),
    "ratings, EPB": Case(RatingsModel, partial(fit_ratings, "epb", noise=0.3), (7, 19), 1000),
    "bits": Case(BinaryModel, partial(fit_bits), (7, 19), 500),
    "bits, with holes": Case(BinaryModel, partial(fit_bits_with_holes), (7, 19), 500),
    "clusters with holes, noise of features": Case(
        MixtureModel, partial(fit_clusters_with_holes, noise="per-feature"), (3, 7)
    ),
    "clusters with holes": Case(MixtureModel, partial(fit_clusters_with_holes), (3, 7)),
}


# Nats between neighbouring minima: one problem may end in the higher one.
SIDE_BY_SIDE = 1.0
FLAT_AT_THE_END = {"noise-free": 1e-4}


def energies_of(case, seed, **options):
    """Free energies of the steps. A rise is an error, except for noise-free data, where rounding
    raises the free energy of plain steps as well.
    """
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if KINDS[seed % len(KINDS)] != "noise-free":
            warnings.simplefilter("error", FreeEnergyWarning)
        case.fit(seed, lambda number, info: found.append(info.free_energy), **options)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rows_columns_and_clusters_end_no_worse(name, monkeypatch):
    case, steps, worse = CASES[name], np.zeros(2), []
    for seed in case.seeds:
        quick = energies_of(case, seed, tol=TOL)
        with monkeypatch.context() as patched:
            patched.setattr(case.model, "chart", lambda self, data: None)
            plain = energies_of(case, seed, tol=1e-12, max_iter=case.max_iter)
        higher, kind = quick[-1] - plain[-1], KINDS[seed % len(KINDS)]
        assert higher <= SIDE_BY_SIDE, (seed, kind)
        gap = higher / (abs(plain[-1]) + 1)
        worse += [seed] if gap > FLAT_AT_THE_END.get(kind, 2 * TOL) else []
        steps += quick.size, plain.size
    assert len(worse) <= 1, worse
    assert steps[0] < steps[1]


class _KilledError(Exception):
    pass


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_is_killed_goes_on_with_the_same_digits(name, monkeypatch, tmp_path):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    case, seed = CASES[name], 3
    whole = energies_of(case, seed, tol=TOL)
    path, last = tmp_path / "fit.ckpt", max(whole.size // 2, 1)

    def killed(number, info):
        if number == last:
            raise _KilledError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(_KilledError):
            case.fit(seed, killed, tol=TOL, checkpoint=path)
    assert path.exists() or last == 1
    assert energies_of(case, seed, tol=TOL, checkpoint=path)[-1] == whole[-1]

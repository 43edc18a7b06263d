"""The sampler of ratings leaves the posterior invariant, with any threads and interruptions."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bayespca import GibbsPCA, MatrixFactorization, inference
from bayespca.arrays import parallel
from bayespca.datasets import low_rank
from bayespca.inference.fitting import Looping
from bayespca.missing.ratings.cells import sorted_side
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model
from bayespca.missing.sampled import drift, prior
from bayespca.missing.sampled import step as sweeps
from bayespca.missing.sampled.compiled import by_loops, implicit_by_loops
from bayespca.missing.sampled.data import FeaturedRatings, with_features
from bayespca.missing.sampled.draws import averaged_by_loops, averaged_by_numpy, canonical
from bayespca.missing.sampled.drift import DriftDraw, binned
from bayespca.missing.sampled.fit import SampledModel
from bayespca.missing.sampled.kernels import Chances, DrawTask, by_numpy
from bayespca.missing.sampled.prior import (
    LinearMean,
    SampledPrior,
    drawn_linear,
    drawn_nu,
    drawn_prior,
    implicit_by_numpy,
)
from bayespca.missing.sampled.step import SampledProblem, generator, swept
from cases import EVERY_CASE
from oracles import sampled as oracle

N, M = 60, 40


def simulated(seed=0, n=N, m=M, share=0.4):
    rng = np.random.default_rng(seed)
    X = 3 + rng.normal(size=(n, 2)) @ rng.normal(size=(2, m)) + rng.normal(size=(n, 1))
    i, j = np.nonzero(rng.random((n, m)) < share)
    return i.astype(np.int32), j.astype(np.int32), X[i, j] + 0.5 * rng.normal(size=i.size)


def data_of(i, j, x, features, *, implicit=False, times=None) -> FeaturedRatings:
    """Ratings as the sampler reads them, neither centred nor scaled."""
    n, m = map(len, features)
    sides = sorted_side(i, j, x, n), sorted_side(j, i, x, m)
    when = None if times is None else binned(sides[0], times)
    return FeaturedRatings(*sides, 0.0, 1.0, *features, implicit, when)


def fitted(looping=None, **options):
    i, j, x = simulated()
    times = np.random.default_rng(5).choice([0.0, 1e5, 5e6, 1e7], i.size)
    cells = sorted_both_ways(i, j, x, (N, M), center=True)
    data = with_features(cells, implicit=True, times=times)
    begun = ratings_model(data, n_components=3)
    options = {"n_warmup": 3, "n_draws": 6, "n_chains": 2, "begun": begun} | options
    model = SampledModel(**options)
    return inference.fit(model, data, looping or Looping(random_state=0))


# --- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("own_noise", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_the_loops_compute_what_numpy_does(biases, own_noise):
    i, j, x = simulated()
    side, rng, K = sorted_side(i, j, x, N), np.random.default_rng(1), 4
    root = rng.normal(size=(K, K))
    precision, pull = root @ root.T + np.eye(K), rng.normal(size=(N, K))
    weights = rng.gamma(3.0, size=M) if own_noise else np.ones(M)
    noise = 1.7, 5.0 * own_noise, biases
    task = DrawTask(rng.normal(size=(M, K)), weights, precision, pull, *noise)
    gamma = rng.gamma(2.0, size=N) if own_noise else np.empty(0)
    old, chances = rng.normal(size=(N, K)), Chances(rng.normal(size=(N, K)), gamma)
    one, other = (draw(side, task, old, chances) for draw in (by_numpy, by_loops))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-9, atol=1e-9)
    z = task.other.copy()
    if biases:
        z[:, -1] = 1.0
    left = [
        weights[j[i == r]]
        @ (x[i == r] - task.offsets[j[i == r]] - z[j[i == r]] @ one.theta[r]) ** 2
        for r in range(N)
    ]
    np.testing.assert_allclose(one.squares, left, rtol=1e-9)


@pytest.mark.parametrize("biases", [True, False])
def test_predictions_of_the_loops_are_those_of_numpy(biases):
    draws = fitted(biases=biases, begun=_begun(biases)).draws
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(-1, N, 300), rng.integers(-1, M, 300)
    assert (rows < 0).any()
    assert (columns < 0).any()
    one, other = (f(draws, rows, columns) for f in (averaged_by_numpy, averaged_by_loops))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-5, atol=1e-6)


def _begun(biases):
    i, j, x = simulated()
    data = sorted_both_ways(i, j, x, (N, M), center=True)
    return ratings_model(data, n_components=3, biases=biases)


# --- the posterior is invariant ----------------------------------------------------------------

INFORMATIVE = SampledPrior(
    *(0.4, 2.0, 6.0, 5.0, 3.0), nus=(6.0, 12.0, 30.0), a_drift=4.0, b_drift=2.0
)


@pytest.mark.parametrize(
    ("biases", "p", "is_implicit", "drifts", "many"),
    [
        (True, 0, False, False, 200),
        (False, 0, False, True, 200),
        (True, 2, False, False, 200),
        (True, 1, True, False, 200),
        (True, 0, True, True, 1),
    ],
)
def test_the_joint_distribution(biases, p, is_implicit, drifts, many, monkeypatch):
    """Geweke, "Getting it right" (JASA 2004): sweeps that alternate with new data keep the prior.

    Cases have p features on each side or none, drifts or none, and indicators of what is rated (by
    NumPy or by loops) or none.
    """
    monkeypatch.setattr(prior, "MANY", many)
    problem, shape, K = SampledProblem(INFORMATIVE, biases), (5, 4), 2
    rng, count = np.random.default_rng(1), 5000 if EVERY_CASE else 2000
    i, j = (a.astype(np.int32) for a in np.nonzero(np.random.default_rng(0).random(shape) < 0.7))
    features = [rng.normal(size=(size, p)) for size in shape]
    sides = (oracle.indicators(i, j, shape), oracle.indicators(j, i, shape[::-1]))
    rated = sides if is_implicit else (None, None)
    # Two levels resolve these times, and some ratings share a time.
    times = np.random.default_rng(3).choice([0.0, 0.02, 0.03, 1.0], i.size) if drifts else None
    drifting = oracle.runs(i, times, (1, 2)) if drifts else ()
    monkeypatch.setattr(drift, "FINER", 1.01)
    monkeypatch.setattr(drift, "SHARED", 0.99)
    if drifts:
        assert data_of(i, j, times, features, times=times).bins.scale.levels == (1, 2)

    def drawn():
        return oracle.drawn(features, K, INFORMATIVE, rng, rated, drifting)

    before = [oracle.looked_at(drawn()) for _ in range(count)]
    now, found = drawn(), []
    for sweep in range(count):
        x = oracle.ratings(now, i, j, rng, biases=biases, drifting=drifting)
        data = data_of(i, j, x, features, implicit=is_implicit, times=times)
        now = swept(now, data, problem, generator(2, 0, sweep))
        found.append(oracle.looked_at(now))
    z = oracle.z_scores(before, found)
    assert np.abs(z).max() < 5.0, z.round(1)


@pytest.mark.parametrize("side", ["row_rated", "column_rated"])
def test_what_is_rated_is_a_feature(side):
    """Shifts and draws, by loops and by NumPy, are those of indicators written out.

    A user or item without ratings has no shift.
    """
    i, j, x = simulated(share=0.1)
    there = (i != 3) & (j != 5)
    i, j, x = i[there], j[there], x[there]
    data = data_of(i, j, x, (np.empty((N, 0)), np.empty((M, 0))), implicit=True)
    rated, rng, K = getattr(data, side), np.random.default_rng(0), 3
    written = oracle.indicators(i, j, (N, M))
    if side == "column_rated":
        written = oracle.indicators(j, i, (M, N))
    n, p = written.shape
    y, rest, noise = rng.normal(size=(p, K)), rng.normal(size=(n, K)), rng.normal(size=(p, K))
    np.testing.assert_allclose(rated.shift(y), written @ y, atol=1e-12)
    np.testing.assert_allclose(rated.squares, np.sum(written**2, axis=0), atol=1e-12)
    now = LinearMean(y, 0.7)
    rest *= rated.active[:, None]
    found, left = implicit_by_loops(rest - written @ y, rated, now, noise)
    for one, other in zip(
        (found, left), implicit_by_numpy(rest - written @ y, rated, now, noise), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(rest - left, written @ found, atol=1e-10)
    expected = y.copy()
    for c in range(p):
        left = rest - written @ expected + np.outer(written[:, c], expected[c])
        f = written[:, c]
        expected[c] = f @ left / (0.7 + f @ f) + noise[c]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_cells_without_drift_are_those_of_both_orders():
    """Each cell loses the effects of its runs, found one by one, in both orders of cells."""
    i, j, x = simulated()
    times = np.random.default_rng(1).choice(np.linspace(0, 1, 30), i.size)
    data = data_of(i, j, x, (np.empty((N, 0)), np.empty((M, 0))), times=times)
    levels = data.bins.scale.levels
    drifting, rng = oracle.runs(i, times, levels), np.random.default_rng(2)
    effects = [rng.normal(size=len(there)) for there, _ in drifting]
    for level, (there, _) in enumerate(drifting):
        keys = [row * 16 ** levels[level] + bin for row, bin in there]
        assert data.bins.keys[level].tolist() == keys
    total = sum(e[places] for (_, places), e in zip(drifting, effects, strict=True))
    by_rows, by_columns = data.without_drift(DriftDraw(tuple(effects), np.ones(len(levels))))
    np.testing.assert_allclose(by_rows.values, x - total)
    np.testing.assert_allclose(by_columns.values, sorted_side(j, i, x - total, M).values)


def test_what_all_have_rated_says_nothing():
    i, j = (a.ravel().astype(np.int32) for a in np.indices((N, M)))
    none = np.empty((N, 0)), np.empty((M, 0))
    assert data_of(i, j, np.ones(i.size), none).row_rated.is_constant
    assert not data_of(i[1:], j[1:], np.ones(i.size - 1), none).row_rated.is_constant


def test_priors_given_rows():
    """With many rows, their mean and covariance determine the drawn prior."""
    rng, n = np.random.default_rng(0), 200_000
    theta = rng.multivariate_normal([1.0, -2.0], [[2.0, 0.5], [0.5, 1.0]], n)
    found = drawn_prior(theta, SampledPrior(), rng, LinearMean.none(0, 2))
    np.testing.assert_allclose(found.mean, [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(np.linalg.inv(found.precision), np.cov(theta.T), rtol=0.05)
    B, F = np.array([[1.0, 0.0], [-0.5, 2.0]]), rng.normal(size=(n, 2))
    linear = drawn_linear(theta + F @ B, F, found, LinearMean.none(2, 2), rng)
    np.testing.assert_allclose(linear.weights, B, atol=0.02)
    for nu in (5.0, 40.0):
        weights = rng.gamma(0.5 * nu, 2 / nu, size=20_000)
        assert drawn_nu(weights, SampledPrior(), rng) == pytest.approx(nu, rel=0.25)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_with_all_cells_it_agrees_with_the_sampler_of_pca():
    """Denoised cells and the noise agree within the differences between chains.

    The signal variance, about which nothing is said, mixes slowly: rounding decides on a warning.
    """
    X = low_rank(80, 12, 2, noise_variance=0.25, random_state=0).X
    pca = GibbsPCA(4, n_draws=400, random_state=0).fit(X)
    model = MatrixFactorization(
        "gibbs", noise="isotropic", n_components=4, n_draws=400, n_warmup=100, random_state=0
    ).fit(X)
    assert model.noise_variance_ == pytest.approx(pca.noise_variance_, rel=0.1)
    here, spread = model.predict(model.users_[:, None], model.items_, return_std="mean")
    there = pca.inverse_transform(pca.transform(X))
    assert np.sqrt(np.mean((here - there) ** 2)) < 0.35 * np.sqrt(np.mean(spread**2))


# --- chains ------------------------------------------------------------------------------------


def assert_same_draws(one, other):
    parts = "rows", "columns", "row_weights", "noise_precision", "row_precision", "row_nu"
    for name in (*parts, "row_implicit"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.drift.levels == other.drift.levels == (1, 2)
    for name in ("keys", "mean", "variance", "prior"):
        for mine, theirs in zip(getattr(one.drift, name), getattr(other.drift, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_seed_is_a_fit():
    first = fitted().draws
    assert first.rows.shape == (12, N, 7)
    assert_same_draws(first, fitted().draws)
    assert not np.array_equal(first.rows, fitted(Looping(random_state=1)).draws.rows)
    assert not np.array_equal(first.rows[:6], first.rows[6:])


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    monkeypatch.setattr(sweeps, "MANY", 1)
    monkeypatch.setattr(prior, "MANY", 1)
    monkeypatch.setattr(parallel, "blas_threads", lambda: 1)
    one = fitted().draws
    monkeypatch.setattr(parallel, "blas_threads", lambda: threads)
    assert_same_draws(one, fitted().draws)


def test_sweeps_share_their_work_among_threads(monkeypatch):
    """All loops over ratings in a sweep use threads, including those over the indicators."""
    monkeypatch.setattr(sweeps, "MANY", 1)
    monkeypatch.setattr(prior, "MANY", 1)
    seen, pool = [], parallel._pool

    def watched(threads):
        seen.append(threads)
        return pool(threads)

    monkeypatch.setattr(parallel, "_pool", watched)
    with threadpool_limits(2, user_api="blas"):
        fitted()
    assert len(seen) >= 9 * 2 * 3
    assert set(seen) == {2}


@pytest.mark.parametrize("at", [2, 5])
def test_a_fit_that_is_broken_off_ends_with_the_same_digits(at, tmp_path, monkeypatch):
    """Interrupted before and after the first kept draw."""
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)

    def interrupt(number, info):
        if number == at + 1:
            raise KeyboardInterrupt

    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        fitted(Looping(random_state=0, checkpoint=path, callback=interrupt))
    assert path.exists()
    numbers = []
    found = fitted(
        Looping(random_state=0, checkpoint=path, callback=lambda n, info: numbers.append(n))
    )
    assert numbers == list(range(at + 1, 10))
    assert_same_draws(found.draws, fitted().draws)
    assert not path.exists()


# --- coordinates -------------------------------------------------------------------------------


@pytest.mark.parametrize("biases", [True, False])
def test_draws_are_moved_to_where_they_can_be_compared(biases):
    """`canonical` removes the transformations that the likelihood does not see."""
    rng, H = np.random.default_rng(0), 3
    K = H + biases
    a, b = rng.normal(size=(N, K)) + 1, rng.normal(size=(M, K)) - 0.5
    R = rng.normal(size=(H, H))
    c, d = a.copy(), b.copy()
    c[:, :H], d[:, :H] = a[:, :H] @ R, b[:, :H] @ np.linalg.inv(R).T
    if biases:
        shift = rng.normal(size=H)
        c[:, :H], d[:, -1] = c[:, :H] + shift, d[:, -1] - d[:, :H] @ shift
    one, other = canonical(a, b, biases=biases), canonical(c, d, biases=biases)
    signs = np.sign(np.sum(one.rows * other.rows, axis=0))
    np.testing.assert_allclose(other.rows * signs, one.rows, atol=1e-6)
    np.testing.assert_allclose(other.columns * signs, one.columns, atol=1e-6)
    assert other.mean == pytest.approx(one.mean)
    low = one.rows[:, :H] @ one.columns[:, :H].T
    if biases:
        low = low + one.rows[:, H:] + one.columns[:, H] + one.mean
    expected = a[:, :H] @ b[:, :H].T
    if biases:
        expected = expected + a[:, H:] + b[:, H]
    np.testing.assert_allclose(low, expected, atol=1e-6)

"""The randomized engine agrees with LAPACK's SVD, and its confidence with simulation."""

from __future__ import annotations

from functools import partial

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import betainc

from bayespca.engines import randomized
from bayespca.engines.operators import dense_operator, sparse_operator
from bayespca.engines.randomized import krylov
from bayespca.engines.randomized import problem as problem_module
from bayespca.engines.randomized import space as space_module
from bayespca.engines.randomized.krylov import Look, decompose
from bayespca.engines.randomized.problem import FIRST_LOOK, Chance, RandomizedProblem
from bayespca.engines.randomized.space import HastySpace, Space
from bayespca.spectrum import METHODS, Spectrum, solve

SUBSPACE = {np.float64: 1e-7, np.float32: 2e-4}
# A few dozen rounding errors of float32.
NOISE = {np.float64: 1e-9, np.float32: 5e-6}
TALL, WIDE, SQUARE = (700, 420), (420, 700), (500, 500)


# --- data, and their dense decomposition -------------------------------------------------------


def matrix(shape, singular_values, *, noise=0.0, seed=0):
    """A matrix with these singular values, plus white noise."""
    rng = np.random.default_rng(seed)
    (n, p), k = shape, len(singular_values)
    U, V = (np.linalg.qr(rng.normal(size=(size, k)))[0] for size in (n, p))
    return (U * singular_values) @ V.T + noise * rng.normal(size=(n, p))


def edge(shape):
    """The largest singular value of white noise."""
    return np.sqrt(shape[0]) + np.sqrt(shape[1])


def signal(shape, rank, *, weakest=1.6, strongest=8.0, seed=0):
    """White noise plus components that clearly exceed it."""
    return matrix(shape, edge(shape) * np.linspace(strongest, weakest, rank), noise=1.0, seed=seed)


def reference(X, *, center=True, plan=solve):
    X = np.asarray(X, dtype=np.float64)
    n, p = X.shape
    M = n - 1 if center else n
    _, gamma, right = np.linalg.svd(X - X.mean(axis=0) if center else X, full_matrices=False)
    return plan(Spectrum(gamma[: min(p, M)], (p, M))), gamma, right


def run(X, *, center=True, plan=solve, seed=0, **options):
    """Result of the engine, with a larger basis than such small matrices would get."""
    options = {"max_basis": min(X.shape) // 2, **options}
    operator = dense_operator(X, center=center)
    return decompose(operator, plan=plan, rng=np.random.default_rng(seed), **options)


def distance(rows, others):
    """The sine of the largest angle between two subspaces."""
    rows = np.asarray(rows, dtype=np.float64)
    return np.linalg.norm(rows - rows @ others.T @ others, 2) if len(rows) else 0.0


def assert_right(found, X, *, center=True, plan=solve):
    """Assert that rank, noise, kept values and subspace are those of the dense SVD."""
    dtype = np.asarray(X).dtype.type
    theirs, gamma, right = reference(X, center=center, plan=plan)
    ours, k = plan(found.spectrum), theirs.rank
    assert ours.rank == k
    assert ours.status.exact
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=NOISE[dtype])
    assert ours.threshold == pytest.approx(theirs.threshold, rel=NOISE[dtype])
    values = found.spectrum.singular_values
    np.testing.assert_allclose(values[:k], gamma[:k], rtol=NOISE[dtype])
    assert np.all(values <= gamma[: values.size] * (1 + NOISE[dtype]))
    rows = np.asarray(found.right(k))
    assert rows.dtype == dtype
    assert rows.shape == (k, X.shape[1])
    assert distance(rows, right[:k]) < SUBSPACE[dtype]
    assert found.engine == "randomized"
    assert found.n_samples == X.shape[0]
    assert found.miss_probability <= 1e-6


class Counting:
    """An operator that counts the columns it multiplies."""

    def __init__(self, operator):
        self._operator = operator
        self.n_columns = 0

    def __getattr__(self, name):
        return getattr(self._operator, name)

    def matmul(self, Q):
        self.n_columns += Q.shape[1]
        return self._operator.matmul(Q)

    def rmatmul(self, W):
        self.n_columns += W.shape[1]
        return self._operator.rmatmul(W)


# --- against the dense SVD ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [0, 5, 30])
@pytest.mark.parametrize("shape", [TALL, WIDE, SQUARE])
def test_agrees_with_the_dense_svd(shape, rank, dtype):
    X = signal(shape, rank).astype(dtype)
    assert_right(run(X), X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_rank_of_many_blocks(dtype):
    X = signal((800, 700), 100, weakest=3).astype(dtype)
    assert_right(run(X), X)


@pytest.mark.parametrize(
    ("dtype", "offset", "sigma"),
    [
        (np.float32, 300.0, 0.1),
        (np.float32, 20.0, 1.0),
        (np.float32, 5.0, 1.0),
        (np.float64, 1e4, 1.0),
        (np.float64, 1e8, 1.0),
    ],
)
def test_offsets_of_columns_do_not_matter(dtype, offset, sigma):
    rng = np.random.default_rng(3)
    X = (sigma * signal(TALL, 5) + offset * (1 + rng.random(TALL[1]))).astype(dtype)
    found = run(X)
    assert_right(found, X)
    np.testing.assert_allclose(found.mean, X.mean(axis=0, dtype=np.float64), rtol=1e-14)


def test_without_centring():
    X = signal(TALL, 4) + 0.5
    found = run(X, center=False)
    assert_right(found, X, center=False)
    assert found.spectrum.shape == (420, 700)
    assert not found.mean.any()


def test_centring_costs_a_sample():
    assert run(signal(WIDE, 3)).spectrum.shape == (700, 419)


@pytest.mark.parametrize("scale", [1e-85, 1e-20, 1e20, 1e85])
def test_any_scale(scale):
    X = signal(TALL, 5) * scale
    assert_right(run(X), X)


@pytest.mark.parametrize("scale", [1e-25, 1e15, 1e30])
def test_any_scale_in_single_precision(scale):
    X = (signal(TALL, 5) * scale).astype(np.float32)
    assert_right(run(X), X)


def test_squares_that_overflow_are_refused():
    with pytest.raises(ValueError, match="overflow"), np.errstate(over="ignore", invalid="ignore"):
        run(signal(TALL, 5) * 1e200)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_any_method(method):
    X = signal(TALL, 4, weakest=2)
    plan = partial(solve, method=method, max_rank=4)
    found = run(X, plan=plan, max_basis=400)
    theirs, _, right = reference(X, plan=plan)
    assert plan(found.spectrum).rank == theirs.rank
    assert distance(found.right(theirs.rank), right[: theirs.rank]) < 1e-7


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_a_rank_limited_from_outside(cap):
    X = signal(TALL, 8)
    plan = partial(solve, max_rank=cap)
    assert_right(run(X, plan=plan), X, plan=plan)


def test_a_given_noise():
    X = signal(TALL, 6)
    plan = partial(solve, noise_variance=1.2)
    assert_right(run(X, plan=plan), X, plan=plan)


# --- spectra that fall slowly ------------------------------------------------------------------

I = np.arange(1, 401)
DECAYS = {
    "1/i": 30 / I,
    "1/√i": 10 / np.sqrt(I),
    "1/i²": 30.0 / I**2,
    "exp(−i/10)": 20 * np.exp(-I / 10),
    "exp(−i/100)": 5 * np.exp(-I / 100),
    "all equal": np.full(400, 3.0),
    "half equal": np.repeat([3.0, 0.2], 200),
    "a third equal": np.repeat([3.0, 0.0], [130, 270]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("decay", DECAYS)
def test_gives_up_or_is_right(decay, noise, dtype):
    shape = (600, 400)
    X = matrix(shape, edge(shape) * DECAYS[decay], noise=noise).astype(dtype)
    operator = Counting(dense_operator(X))
    found = decompose(operator, plan=solve, rng=np.random.default_rng(0))
    assert operator.n_columns <= 2 * 400 // 3 + 400
    if found is not None:
        assert_right(found, X)


def test_some_slow_spectra_are_still_cut_off():
    shape = (600, 400)
    X = matrix(shape, edge(shape) * DECAYS["1/i²"], noise=1.0)
    assert_right(run(X), X)


@pytest.mark.parametrize("block", [4, 24])
def test_many_components_are_not_taken_for_noise(block):
    """Here the largest singular values alone look like noise; the whole spectrum does not."""
    X = matrix((430, 690), edge((430, 690)) * np.full(160, 2.4), noise=1.0)
    found = run(X, center=False, block=block)
    assert found is None or solve(found.spectrum).rank == 160


def test_small_matrices_are_left_to_others():
    assert run(signal((30, 20), 2)) is None


# --- degenerate data ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [1, 7, 60])
@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_exactly_low_rank(shape, rank, dtype):
    X = matrix(shape, np.geomspace(5, 0.1, rank)).astype(dtype)
    found = run(X, center=False)
    solution = solve(found.spectrum)
    _, gamma, right = reference(X, center=False)
    assert solution.rank == rank
    assert "noise-free" in solution.status
    assert found.spectrum.is_complete
    tolerance = {np.float64: 1e-12, np.float32: 2e-5}[dtype]
    np.testing.assert_allclose(found.spectrum.singular_values[:rank], gamma[:rank], rtol=tolerance)
    assert distance(found.right(rank), right[:rank]) < tolerance


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constant_columns_only(value, dtype):
    found = run(np.full(TALL, value, dtype=dtype))
    assert found.spectrum.sum_of_squares == 0
    assert solve(found.spectrum).rank == 0
    assert found.right(0).shape == (0, TALL[1])


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_equal_singular_values_within_a_block(noise):
    X = matrix(TALL, np.ones(7), noise=noise)
    found = run(X, center=False)
    assert solve(found.spectrum).rank == 7
    assert distance(found.right(7), reference(X, center=False)[2][:7]) < 1e-7


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_more_copies_of_a_singular_value_than_a_block_has_columns(noise):
    assert run(matrix(TALL, np.ones(40), noise=noise), center=False) is None


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_block_wider_than_the_matrix(shape, rank):
    X = matrix(shape, np.array([9.0, 7.0])[:rank])
    found = run(X, max_basis=12)
    assert solve(found.spectrum).rank == rank


def test_strong_components_do_not_hide_weak_ones():
    X = matrix(TALL, np.array([1e4, 1e3, 1e2, 10.0]), noise=1e-2)
    theirs, _, right = reference(X)
    found = run(X)
    ours = solve(found.spectrum)
    assert ours.rank == theirs.rank == 4
    # The noise is what 1e8 leaves of ‖X‖²; the difference loses eight digits.
    assert ours.noise_variance == pytest.approx(theirs.noise_variance, rel=1e-6)
    assert distance(found.right(4), right[:4]) < 1e-9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_noise_that_rounding_hides_is_left_to_others(dtype):
    X = matrix(TALL, np.array([1e9, 1e3]), noise=1e-2).astype(dtype)
    found = run(X, center=False)
    assert found is None or found.spectrum.is_complete


def test_read_only_and_fortran_ordered():
    X = signal(TALL, 5)
    plain = run(X)
    X.flags.writeable = False
    other = run(np.asfortranarray(X))
    np.testing.assert_allclose(
        run(X).spectrum.singular_values, plain.spectrum.singular_values, rtol=0
    )
    assert distance(other.right(5), plain.right(5)) < 1e-10


# --- random numbers ----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits():
    X = signal(TALL, 5)
    first, second = run(X, seed=3), run(X, seed=3)
    np.testing.assert_array_equal(first.right(5), second.right(5))
    np.testing.assert_array_equal(first.spectrum.singular_values, second.spectrum.singular_values)


def test_no_seed_changes_the_answer():
    X = signal(WIDE, 12, weakest=1.3)
    for seed in range(5):
        assert_right(run(X, seed=seed), X)


@pytest.mark.parametrize("block", [2, 7, 16, 40])
def test_any_block(block):
    X = signal(TALL, 9)
    assert_right(run(X, block=block), X)


# --- how sure it is ----------------------------------------------------------------------------


def chance(ratio, *, block, n_directions):
    return Chance(
        ratio,
        block=block,
        n_directions=n_directions,
        n_candidates=1.0,
        max_miss=1e-6,
        n_spent=0.0,
        log_damping=0.0,
    )


def test_the_bound_is_sharper_than_that_of_kuczynski_and_wozniakowski():
    for ratio in (1.05, 1.3, 2.0):
        for n_products in (4, 10, 20):
            theirs = 1.648 * np.sqrt(500) * np.exp(-np.sqrt(1 - 1 / ratio) * (n_products - 1))
            ours = chance(ratio, block=1, n_directions=500).missed_after(n_products)
            assert ours <= min(theirs, 1.0) * 1.05


def test_products_needed_inverts_the_bound():
    one = chance(1.2, block=8, n_directions=300)
    assert one.missed_after(one.products_needed()) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize(("block", "steps", "ratio"), [(1, 4, 1.6), (2, 2, 1.8), (4, 2, 1.4)])
def test_the_bound_holds_in_simulation(block, steps, ratio):
    """Over many random starts, count how often the largest Ritz value is below γ₁²/ratio."""
    n, trials = 60, 1500
    gamma = np.append(1.0, np.linspace(0.99, 0.3, n - 1) / np.sqrt(ratio))
    operator = dense_operator(np.diag(gamma), center=False)
    problem = RandomizedProblem.of(operator, solve, block, 1e-6, n)
    rng, missed = np.random.default_rng(0), 0
    for _ in range(trials):
        space = Space.start(operator, rng, problem)
        for _ in range(steps):
            space.expand()
        missed += space.ritz().values[0] ** 2 < 1 / ratio
    bound = chance(ratio, block=block, n_directions=n).missed_after(2 * steps)
    assert 0 < missed / trials <= bound < 1


class Rigged:
    """Random numbers that avoid one direction: coordinates along it shrink by a factor."""

    def __init__(self, direction, factor, seed):
        self._direction, self._factor = direction, factor
        self._rng = np.random.default_rng(seed)

    def standard_normal(self, shape, dtype):
        draw = self._rng.standard_normal(shape)
        along = draw @ self._direction
        self.share = self._factor**2 * (along @ along) / shape[1]
        return draw - (1 - self._factor) * np.outer(along, self._direction)


@pytest.mark.parametrize("rank", [0, 3, 20])
def test_only_starts_less_likely_than_claimed_miss_a_component(rank):
    """Starts are rigged against the weakest component.

    If one hides it, the probability that a start has so little of a direction must be below the
    reported one.
    """
    shape, block = (240, 200), 4
    strong = edge(shape) * np.geomspace(40, 2.5, rank)
    X = matrix(shape, np.append(strong, 1.35 * edge(shape)), noise=1.0)
    theirs, _, right = reference(X, center=False)
    assert theirs.rank == rank + 1
    operator = dense_operator(X, center=False)
    outcomes = set()
    for seed, factor in enumerate(np.geomspace(1e-9, 1, 16)):
        rng = Rigged(right[rank], factor, seed)
        found = decompose(operator, plan=solve, rng=rng, block=block, max_miss=1e-2, max_basis=150)
        outcomes.add(is_missed := solve(found.spectrum).rank < theirs.rank)
        likelihood = betainc(block / 2, min(shape) / 2, rng.share / (1 + rng.share))
        assert not is_missed or likelihood <= found.miss_probability <= 1e-2
    assert outcomes == {True, False}


def test_confidence_costs_products():
    X = signal(TALL, 0)
    columns = []
    for max_miss in (1e-2, 1e-6, 1e-12):
        operator = Counting(dense_operator(X))
        found = decompose(
            operator, plan=solve, rng=np.random.default_rng(0), block=8, max_miss=max_miss
        )
        assert found.miss_probability <= max_miss
        columns.append(operator.n_columns)
    assert columns == sorted(set(columns))


# --- work --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "limit"), [(0, 240), (5, 260), (30, 320)])
def test_columns_multiplied(rank, limit):
    """Power iterations for 30 components multiply 16 × 40 columns, and need to know the rank."""
    operator = Counting(dense_operator(signal((1000, 800), rank, weakest=4, strongest=5)))
    decompose(operator, plan=solve, rng=np.random.default_rng(0))
    assert operator.n_columns <= limit


def test_a_start_that_gives_up_does_so_early():
    shape = (900, 800)
    X = matrix(shape, edge(shape) * 5 * np.exp(-np.arange(800) / 250), noise=0.1)
    operator = Counting(dense_operator(X))
    assert decompose(operator, plan=solve, rng=np.random.default_rng(0)) is None
    assert operator.n_columns <= 2 * 0.6 * 800 / 3


# --- operators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "make", [dense_operator, lambda X, center: sparse_operator(sp.csr_array(X), center=center)]
)
def test_operators_multiply_the_centred_matrix(make, center, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(90, 40)) * (rng.random((90, 40)) < 0.3) + 0.0).astype(dtype)
    X[:, 3] = 2.5
    operator = make(X, center=center)
    A = X.astype(np.float64)
    A = A - A.mean(axis=0) if center else A
    Q, W = rng.normal(size=(40, 5)).astype(dtype), rng.normal(size=(90, 5)).astype(dtype)
    tolerance = 50 * np.finfo(dtype).eps
    np.testing.assert_allclose(operator.matmul(Q), A @ Q, atol=tolerance)
    np.testing.assert_allclose(operator.rmatmul(W), A.T @ W, atol=5 * tolerance)
    assert operator.matmul(Q).dtype == dtype
    assert operator.sum_of_squares == pytest.approx(np.sum(A**2), rel=1e-12)
    assert operator.shape == X.shape
    wide = operator.matmul(Q.astype(np.float64))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, A @ Q, atol=1e-12)


def test_no_copy_unless_offsets_are_large():
    X = signal(TALL, 1).astype(np.float32)
    assert dense_operator(X + 3).values.base is None
    assert not dense_operator(X + 3).is_shifted
    assert dense_operator(X + 300).is_shifted
    assert not dense_operator(X.astype(np.float64) + 300).is_shifted


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_data(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=TALL) * (rng.random(TALL) < 0.3)
    X[:90, :60] += signal((90, 60), 4)
    X = X.astype(dtype)
    operator = sparse_operator(sp.csr_array(X))
    assert_right(decompose(operator, plan=solve, rng=rng, max_basis=210), X)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "X",
    [
        signal(TALL, 5),
        signal(TALL[::-1], 5),
        signal(TALL, 3) + 2000,
        signal(TALL, 30, weakest=2, strongest=300),
    ],
    ids=["tall", "wide", "offset", "strong"],
)
def test_in_haste_the_answer_is_the_same(X, dtype):
    X = X.astype(dtype)
    assert_right(run(X, hasty=True), X)


def test_in_haste_what_cannot_be_made_orthonormal_is_begun_again(monkeypatch):
    """Once the space contains all of A, only rounding errors are left to orthonormalise."""
    begun = []
    start = Space.start.__func__
    monkeypatch.setattr(
        Space, "start", classmethod(lambda cls, *rest: begun.append(cls) or start(cls, *rest))
    )
    X = matrix(TALL, np.array([3.0, 2.0]))
    found = run(X, hasty=True)
    assert begun == [HastySpace, Space]
    assert found.spectrum.singular_values[:2] == pytest.approx([3.0, 2.0], rel=0.05)


@pytest.mark.parametrize(
    ("n", "p", "block"), [(2000, 300, 24), (3000, 800, 24), (400, 3000, 24), (5000, 600, 64)]
)
def test_what_noise_needs_is_told_beforehand(n, p, block):
    """Looks become sure at the predicted step or one before: Ritz values are underestimates."""
    operator = dense_operator(5 * np.random.default_rng(0).normal(size=(n, p)) + 1)
    problem = RandomizedProblem.of(operator, solve, block, 1e-6, min(n, p))
    space = Space.start(operator, np.random.default_rng(1), problem)
    look = None
    while look is None or not look.is_sure:
        space.expand()
        look = Look.at(space.ritz(), space.full_steps, problem)
    needed = int(np.ceil(0.5 * problem.products_for_noise()))
    assert needed - 1 <= space.full_steps <= needed
    assert problem.first_look == FIRST_LOOK


def test_what_noise_needs_is_not_asked_of_those_who_keep_it():
    operator = dense_operator(np.random.default_rng(0).normal(size=(500, 100)))
    problem = RandomizedProblem.of(operator, partial(solve, noise_variance=0.5), 24, 1e-6, None)
    assert problem.products_for_noise() == 0


def test_looks_of_an_accelerator_begin_when_they_can_be_sure(monkeypatch):
    for module in (krylov, problem_module, space_module):
        monkeypatch.setattr(module, "on_accelerator", lambda a: True)
    looks = []
    look = Look.at.__func__
    monkeypatch.setattr(
        Look,
        "at",
        classmethod(
            lambda cls, ritz, steps, *given: looks.append(steps) or look(cls, ritz, steps, *given)
        ),
    )
    X = signal((3000, 800), 5)
    found = run(X, block=24, max_basis=400, hasty=False)
    problem = RandomizedProblem.of(dense_operator(X), solve, 24, 1e-6, None)
    assert looks[0] == np.ceil(0.5 * problem.products_for_noise()) > FIRST_LOOK
    assert_right(found, X)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("data", ["signal", "low rank", "offset"])
def test_arrays_of_any_namespace(data, dtype):
    X = {
        "signal": lambda: signal(TALL, 3),
        "low rank": lambda: matrix(TALL, np.array([3.0, 2.0])),
        "offset": lambda: signal(TALL, 3) + 2000,
    }[data]().astype(dtype)
    strict = array_api_strict.asarray(X)
    found, plain = run(strict), run(X)
    k = solve(plain.spectrum).rank
    assert k in (2, 3)
    rows = found.right(k)
    assert isinstance(rows, type(strict))
    assert rows.dtype == strict.dtype
    assert isinstance(found.mean, type(strict))
    assert distance(np.asarray(rows), np.asarray(plain.right(k), dtype=np.float64)) < 1e-4


def test_the_module_names_its_engine_as_the_selector_does():
    assert run(signal(TALL, 1)).engine == randomized.__name__.rpartition(".")[2]

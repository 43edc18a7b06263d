"""`decompose`: select an engine and run it, and another one where its answer is not good enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bayespca.arrays.namespaces import array_namespace, numpy_dtype, to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import AnyDType, Array
from bayespca.sources.blocks import open_source
from bayespca.sources.constant import constant_columns
from bayespca.sources.data import Where, where_of
from bayespca.sources.partitions import as_partitions
from bayespca.spectrum.noise import rounding_floor

from . import dense, gram, map_reduce, streaming
from .operators import dense_operator, sparse_operator
from .randomized import krylov
from .records import Decomposition, Operator, Plan, embedded, rescaled

# Up to this short side a sparse matrix is decomposed through its Gram matrix at once.
SHORT = 1000
# Up to this short side the Gram matrix is the fallback when a spectrum cannot be cut off.
LARGE = 10_000
# Sums of squares beyond these may have lost digits to the limits of floating-point numbers.
SAFE = (1e-200, 1e200)
# Data larger than this share of the free memory are read in blocks.
IN_MEMORY = 0.25
# Factor by which the noise found in float32 must exceed the noise that rounding errors could be.
RESOLVED = 10.0

ENGINES = ("dense", "gram", "randomized", "streaming", "sparse", "dask")

# Below this many multiplications the precise way costs nothing worth saving.
SMALL = 2e7
# Up to this short side exact singular values take a fraction of a second.
MEDIUM = 1500
# Columns multiplied in a typical run of the randomized engine, both ways.
RANDOMIZED_COLUMNS = 512
# The tridiagonal reduction runs half of its work at the speed of memory, not of arithmetic.
REDUCTION = 4.0


def decompose(
    X: Array,
    *,
    plan: Plan,
    center: bool = True,
    engine: str = "auto",
    n_needed: int = 0,
    random_state: int | np.random.Generator | None = None,
    dead_rows: bool = False,
) -> Decomposition:
    """Singular values and bases of a matrix whose rows are samples.

    Parameters
    ----------
    X
        A NumPy, torch or CuPy array of floating-point numbers, a scipy sparse matrix, a `Source` of
        blocks, or `Partitions` of a Dask collection.
    plan
        Solves the spectrum. It decides when a truncated one is long enough, and whether the
        threshold is too near rounding errors.
    engine
        One of `ENGINES`, or "auto". An engine whose answer would not be precise, or that
        cannot see far enough, hands over to the next; the result names the one that ran.
    n_needed
        Number of singular values that the plan is sure to need; all of them for some methods.
    dead_rows
        Whether rows of zeros are set aside, as columns are, where nothing is centred: samples
        without noise, too, would suggest that there is none.
    """
    task = Task(plan, center, np.random.default_rng(random_state), where_of(X), n_needed)
    if dead_rows and not center and task.where.in_memory:
        n, dead = int(X.shape[0]), constant_columns(X.T, center=False)
        if 0 < dead.size < n:
            live = np.setdiff1d(np.arange(n), dead)
            rows = X[live, :] if task.where is Where.SPARSE else taken(X, live)
            # They count as samples. Nobody needs left vectors where nothing is centred.
            return replace(_live(rows, task, engine), n_samples=n, left=None)
    return _live(X, task, engine)


def _live(X: Array, task: Task, engine: str) -> Decomposition:
    """The decomposition of all rows. Constant columns are set aside, and put back as zeros.

    A constant column has no noise. Counted as a feature it would suggest that there is none at all.
    """
    if not task.where.in_memory:
        return _decompose(X, task, engine)
    p, constant = X.shape[1], constant_columns(X, center=task.center)
    if not 0 < constant.size < p:
        return _decompose(X, task, engine)
    live = np.setdiff1d(np.arange(p), constant)
    if task.where is Where.SPARSE:
        row, varying = X[[0], :].toarray()[0], X[:, live]
    else:
        row, varying = X[0, :], taken(X, live, axis=1)
    found = _decompose(varying, task, engine)
    return embedded(found, live, row if task.center else row * 0)


def is_for_products(X: Array) -> bool:
    """Whether products with an array are the best way to its largest singular values."""
    return select(_job(X, where_of(X), 0)) == "randomized"


def by_products(
    operator: Operator, *, plan: Plan, rng: np.random.Generator | None = None
) -> Decomposition | None:
    """The decomposition of a matrix by products; None where a Gram matrix takes less work."""
    # From a sixth of the short side on, the Gram matrix would have cost less.
    short = min(operator.shape)
    affordable = short // 6 if short <= LARGE else None
    rng = np.random.default_rng() if rng is None else rng
    return krylov.decompose(operator, plan=plan, rng=rng, max_basis=affordable)


def _decompose(X: Array, task: Task, engine: str) -> Decomposition:
    """Run the engine, after removing means that would cost it digits from sparse data."""
    if task.where is not Where.SPARSE or not task.center:
        return _run(X, task, engine)
    X, shift = gram.without_offsets(X)
    found = _run(X, task, engine)
    return replace(found, mean=found.mean + shift) if shift.any() else found


def _run(X: Array, task: Task, engine: str) -> Decomposition:
    """Run the engine, and again at another scale if squares left the range of numbers."""
    name = select(_job(X, task.where, task.n_needed)) if engine == "auto" else engine
    if task.where is Where.SPARSE and name in ("streaming", "dask"):
        raise ValueError(f"engine={name!r} does not read sparse matrices: use 'sparse' or 'auto'.")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        try:
            found = _RUN[name](X, task)
        except (ValueError, RuntimeError):  # the latter is what torch raises
            if not _needs_rescaling(X, task.where):
                raise
            found = None
        if found is not None:
            is_safe = SAFE[0] <= found.spectrum.sum_of_squares <= SAFE[1]
            if is_safe or not _needs_rescaling(X, task.where):
                return found
        factor = 2.0 ** -np.floor(np.log2(_peak(X, task.where)))
        return rescaled(_RUN[name](X * factor, task), 1.0 / factor)


@dataclass(frozen=True)
class Task:
    """The arguments of every engine besides the data."""

    plan: Plan
    center: bool
    rng: np.random.Generator
    where: Where
    n_needed: int = 0


def _job(X: Array, where: Where, n_needed: int) -> Job:
    if not where.in_memory:
        return Job(0, X.n_features, layout=where.value)
    n, p = X.shape
    itemsize = numpy_dtype(X.dtype).itemsize
    return Job(n, p, where.value, itemsize, min(n_needed, n, p), available_memory())


def available_memory() -> float:
    """Bytes of memory that are free and allowed, or 4 GiB where the system does not say."""
    try:
        free = float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        free = float(4 << 30)
    return min(free, _allowed_memory())


def _allowed_memory() -> float:
    """Bytes that a limit on the address space (ulimit -v) still leaves to this process."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return np.inf
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return np.inf
    return max(float(limit - used), 0.0)


def fits_in_memory(n_bytes: float) -> bool:
    """Whether data of this size can be read whole: a fit takes a copy or two."""
    return n_bytes <= IN_MEMORY * available_memory()


# --- engines, and what follows when they fall short --------------------------------------------


def _run_dense(X: Array, task: Task) -> Decomposition:
    """The SVD in the precision of the data, or in float64 where float32 has too few digits."""
    X = X.toarray() if task.where is Where.SPARSE else X
    found, xp = dense.decompose(X, center=task.center), array_namespace(X)
    if X.dtype != xp.float32:
        return found
    # Whether the noise is well above the level of rounding errors.
    unit, noise = found.spectrum.scale, task.plan(found.spectrum).noise_variance
    if noise > RESOLVED * rounding_floor(found.spectrum) * unit * unit:
        return found
    long = xp.astype(X, xp.float64)
    found = dense.decompose(long, center=task.center)
    size = float(xp.mean(long * long)) ** 0.5
    return replace(
        found,
        spectrum=found.spectrum.of_rounded(float(np.finfo(np.float32).eps) * size),
        right=_in_type(found.right, xp.float32),
        left=_in_type(found.left, xp.float32),
    )


def _in_type(vectors: Callable[[int], Array] | None, dtype: AnyDType) -> Any:
    """The function `vectors` with results in another dtype."""
    if vectors is None:
        return None
    return lambda k: array_namespace(found := vectors(k)).astype(found, dtype)


def _run_gram(X: Array, task: Task) -> Decomposition:
    if task.where is Where.SPARSE:
        return _or_dense(gram.decompose_sparse(X, center=task.center), X, task)
    xp = array_namespace(X)
    found = gram.decompose(X, center=task.center)
    if X.dtype == xp.float32 and not _precise(found, task, np.float32):
        found = gram.decompose(X, center=task.center, dtype=xp.float64)
    return _or_dense(found, X, task)


def _or_dense(found: Decomposition, X: Array, task: Task) -> Decomposition:
    """A Gram matrix's answer, or the dense one if rounding has spoilt it and there is memory."""
    if _precise(found, task, np.float64):
        return found
    fits = 3 * 8.0 * X.shape[0] * X.shape[1] <= available_memory()
    if fits:
        return _run_dense(X, task)
    advice = found.status.but(
        "near-rounding",
        "The singular values that matter are so much smaller than the largest that rounding errors "
        "reach them, and there is not enough memory for a more precise method.",
        exact=False,
    )
    return replace(gram.as_rough(found, np.dtype(np.float64)), status=advice)


def _precise(found: Decomposition, task: Task, dtype: type) -> bool:
    return gram.is_precise(found.spectrum, task.plan(found.spectrum), np.dtype(dtype))


def _run_randomized(X: Array, task: Task) -> Decomposition:
    make = sparse_operator if task.where is Where.SPARSE else dense_operator
    operator = make(X, center=task.center)
    return by_products(operator, plan=task.plan, rng=task.rng) or _run_gram(X, task)


def _run_sparse(X: Array, task: Task) -> Decomposition:
    """Use products if the short side is long, else its Gram matrix; SVD only for precision."""
    if task.where is not Where.SPARSE:
        X, task = sp.csr_array(to_numpy(X)), replace(task, where=Where.SPARSE)
    run = _run_randomized if min(X.shape) > SHORT else _run_gram
    found = run(X, task)
    return found if found.engine == "dense" else replace(found, engine="sparse")


def _run_streaming(X: Array, task: Task) -> Decomposition:
    X = open_source(to_numpy(X)) if task.where.in_memory else X
    return streaming.decompose(X, center=task.center, plan=task.plan)


def _run_dask(X: Array, task: Task) -> Decomposition:
    X = as_partitions(to_numpy(X)) if task.where.in_memory else X
    return map_reduce.decompose(
        X, center=task.center, plan=task.plan, rng=task.rng, n_needed=task.n_needed
    )


_RUN = {
    "dense": _run_dense,
    "gram": _run_gram,
    "randomized": _run_randomized,
    "sparse": _run_sparse,
    "streaming": _run_streaming,
    "dask": _run_dask,
}


# --- numbers whose squares leave the range -----------------------------------------------------


def _needs_rescaling(X: Array, where: Where) -> bool:
    if not where.in_memory:
        return False
    peak = _peak(X, where)
    return bool(np.isfinite(peak) and peak > 0 and not 1e-90 < peak < 1e90)


def _peak(X: Array, where: Where) -> float:
    """The largest magnitude in X; not finite if X holds NaN or infinity."""
    if where is Where.SPARSE:
        X = X.data
    if not X.shape[0]:
        return 0.0
    xp = array_namespace(X)
    return max(abs(float(xp.max(X))), abs(float(xp.min(X))))


@dataclass(frozen=True)
class Job:
    """The work that an engine is selected for.

    `layout` is "dense" (an array in memory), "sparse", "blocks" (a memory map, a file, a stream
    of blocks) or "dask"; `n_needed` the number of singular values that will surely be needed: all
    of them for methods that look at the whole spectrum.
    """

    n_samples: int
    n_features: int
    layout: str = "dense"
    itemsize: int = 8
    n_needed: int = 0
    memory: float = float("inf")

    @property
    def short(self) -> int:
        return min(self.n_samples, self.n_features)

    @property
    def cells(self) -> float:
        return float(self.n_samples) * self.n_features


def select(job: Job) -> str:
    """The engine to start with; it may hand over to a more precise one that the spectrum needs."""
    if job.layout == "blocks":
        return "streaming"
    if job.layout in ("sparse", "dask"):
        return job.layout
    copies = 3 * job.cells * job.itemsize
    if job.cells * job.short <= SMALL and copies <= job.memory:
        return "dense"
    few = job.n_needed <= job.short // 8
    if few and job.short > MEDIUM and randomized_work(job) < 0.5 * gram_work(job):
        return "randomized"
    if 3 * 8 * job.short**2 > job.memory and few:
        return "randomized"
    return "gram"


def gram_work(job: Job) -> float:
    """Multiplications of the Gram engine: the symmetric product, then the tridiagonal form."""
    return 0.5 * job.cells * job.short + 2 / 3 * REDUCTION * float(job.short) ** 3


def randomized_work(job: Job) -> float:
    """Multiplications of the randomized engine, if the spectrum lets it stop early."""
    return job.cells * RANDOMIZED_COLUMNS

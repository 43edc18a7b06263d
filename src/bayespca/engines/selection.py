"""Choice of the engine: a pure function of what is known before any work is done."""

from __future__ import annotations

from dataclasses import dataclass

ENGINES = ("dense", "gram", "randomized", "streaming", "sparse", "dask")

# Below this many multiplications the precise way costs nothing worth saving.
SMALL = 2e7
# Up to this short side exact singular values take a fraction of a second.
MEDIUM = 1500
# Columns multiplied in a typical run of the randomized engine, both ways.
RANDOMIZED_COLUMNS = 512
# The tridiagonal reduction runs half of its work at the speed of memory, not of arithmetic.
REDUCTION = 4.0


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

"""Sparse counts of 20,000 cells × 2,000 genes, 4.5 % not zero: time and peak memory."""

from __future__ import annotations

import resource
import time
import warnings

import numpy as np
import scipy.sparse as sp
from timing import heading

from bayespca import GeneralizedPCA

CELLS, GENES, RANK = 20_000, 2_000, 3


def counts(n: int = CELLS, p: int = GENES, seed: int = 0) -> sp.csr_array:
    """Poisson counts of cells of different sizes, drawn in blocks of rows."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, RANK)), 0.5 * rng.normal(size=(p, RANK))
    mean, size = rng.normal(size=p) - 3.9, 0.3 * rng.normal(size=(n, 1))
    blocks = [
        sp.csr_array(rng.poisson(np.exp(A[i : i + 1000] @ B.T + mean + size[i : i + 1000])))
        for i in range(0, n, 1000)
    ]
    return sp.csr_array(sp.vstack(blocks))


def main() -> None:
    warnings.simplefilter("ignore")
    X = counts()
    share = X.nnz / (CELLS * GENES)
    heading(f"sparse Poisson counts, {CELLS}×{GENES}, {100 * share:.1f} % not zero, row sizes")
    start, cpu = time.perf_counter(), time.process_time()
    model = GeneralizedPCA(likelihood="poisson", row_sizes=True).fit(X)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"    rank {model.n_components_}, {model.n_iter_} sweeps, {seconds:.0f} s, {cpu:.0f} s of "
        f"CPU, {peak:.2f} GB at most"
    )


if __name__ == "__main__":
    main()

"""Several tables of the same samples: factors, held-out cells and views; against MOFA."""

from __future__ import annotations

import contextlib
import io
import resource
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from timing import heading, line

from bayespca import MultiViewPCA

PATTERN = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], bool)
HIDDEN = 0.1
# Factors that MOFA starts with, and the share of the variance below which it drops them.
MOST, DROPPED = 15, 0.01


class Found(NamedTuple):
    """Result of a model: which factors are in which views, filled tables, CPU seconds."""

    active: np.ndarray
    filled: list[np.ndarray]
    seconds: float


def tables(seed: int, n: int, sizes: tuple[int, ...], strength: tuple[float, float]) -> list[Any]:
    """Six factors in different tables, with means and noise of their own."""
    rng = np.random.default_rng(seed)
    A, found = rng.normal(size=(n, len(PATTERN))), []
    for v, p in enumerate(sizes):
        B = rng.normal(size=(p, len(PATTERN))) * PATTERN[:, v]
        B *= rng.uniform(*strength, size=len(PATTERN))
        size = rng.uniform(0.5, 2)
        found.append(size * (A @ B.T + rng.normal(size=(n, p))) + 3 * rng.normal(size=p))
    return found


def pierced(given: list[np.ndarray]) -> list[np.ndarray]:
    """The tables with a tenth of the cells hidden, and the last tenth of the last one's rows."""
    rng = np.random.default_rng(0)
    found = [np.where(rng.random(x.shape) < HIDDEN, np.nan, x) for x in given]
    found[-1][-len(found[-1]) // 10 :] = np.nan
    return found


def ours(given: list[np.ndarray]) -> Found:
    start = time.process_time()
    model = MultiViewPCA().fit(given)
    seconds = time.process_time() - start
    return Found(model.active_, model.impute(given), seconds)


def mofa(given: list[np.ndarray], dropped: float | None = DROPPED) -> Found | None:
    """Fit mofapy2, which drops factors below a share of the variance unless that is None."""
    try:
        from mofapy2.run.entry_point import entry_point
    except ImportError:
        print("mofapy2 is not installed: pip install mofapy2")
        return None
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = entry_point()
        model.set_data_options(scale_views=False)
        model.set_data_matrix([[x.copy()] for x in given], likelihoods=["gaussian"] * len(given))
        model.set_model_options(factors=MOST)
        model.set_train_options(iter=1000, dropR2=dropped, seed=1, quiet=True)
        model.build()
        model.run()
        seconds = time.process_time() - start
    Z = model.model.nodes["Z"].getExpectation()
    W = model.model.nodes["W"].getExpectation()
    shares = np.array(
        [
            [(Z[:, [k]] @ w[:, [k]].T).var() / np.nanvar(x) for w, x in zip(W, given, strict=True)]
            for k in range(Z.shape[1])
        ]
    )
    means = [np.nanmean(x, axis=0) for x in given]
    filled = [Z @ w.T + m for w, m in zip(W, means, strict=True)]
    return Found(shares > DROPPED, filled, seconds)


def error(found: Found, truth: list[np.ndarray], given: list[np.ndarray], *, views: bool) -> float:
    """Root mean square error of hidden cells over the standard deviation of their table."""
    squares, count = 0.0, 0
    for filled, x, seen in zip(found.filled, truth, given, strict=True):
        hidden = np.isnan(seen)
        whole = hidden.all(axis=1, keepdims=True)
        hidden &= whole if views else ~whole
        squares += float((((filled - x)[hidden] / x.std()) ** 2).sum())
        count += int(hidden.sum())
    return float(np.sqrt(squares / max(count, 1)))


def is_right(active: np.ndarray) -> bool:
    return sorted(map(tuple, active.tolist())) == sorted(map(tuple, PATTERN.tolist()))


def compared(n: int, sizes: tuple[int, ...]) -> None:
    heading(f"{n:,}×({' + '.join(map(str, sizes))}), six factors: CPU")
    given = tables(0, n, sizes, (0.3, 1.0))
    ours([x[:50, :40] for x in given])  # so that compilation is not timed
    found, peer, all_kept = ours(given), mofa(given), mofa(given, None)
    print(f"    factors: ours {len(found.active)}", end="")
    if peer is not None and all_kept is not None:
        print(f", mofapy2 {len(peer.active)} with a threshold, {len(all_kept.active)} without")
        for name, one in (("with a threshold", peer), ("without", all_kept)):
            times = f"{one.seconds / found.seconds:.1f} times ours"
            line(f"mofapy2, {name} ({one.seconds:.1f} s)", times, "20")
    holed = pierced(given)
    found, peer = ours(holed), mofa(holed)
    for name, one in (("ours", found), ("mofapy2", peer)):
        if one is not None:
            cells, views = (error(one, given, holed, views=views) for views in (False, True))
            print(f"    {name}: hidden cells {cells:.4f}, views {views:.4f}, {one.seconds:.2f} s")


def patterns(seeds: int = 50) -> None:
    n, sizes = 200, (200, 120, 60)
    heading(f"{n}×({' + '.join(map(str, sizes))}), {seeds} seeds, weak factors: right patterns")
    right = {"ours": 0, "mofapy2": 0}
    for seed in range(seeds):
        given = tables(seed, n, sizes, (0.25, 1.0))
        for name, one in (("ours", ours(given)), ("mofapy2", mofa(given))):
            right[name] += one is not None and is_right(one.active)
    print("    " + ", ".join(f"{name} {count} of {seeds}" for name, count in right.items()))


def distant(n: int = 100_000, rows: int = 5000) -> None:
    """Print time and memory for views that the threads of Dask make block by block."""
    import dask
    import dask.array as da

    pattern = np.array([[1, 1], [1, 0], [1, 0], [0, 1]], bool)
    sizes = (2000, 50)

    def block(i: int, v: int) -> np.ndarray:
        A = np.random.default_rng([1, i]).normal(size=(rows, len(pattern)))
        B = np.random.default_rng([2, v]).normal(size=(sizes[v], len(pattern)))
        noise = np.random.default_rng([3, i, v]).normal(size=(rows, sizes[v]))
        return A @ (0.5 * B * pattern[:, v]).T + noise

    heading(f"{n:,}×({' + '.join(map(str, sizes))}) on Dask")
    made = dask.delayed(block)
    given = [
        da.concatenate([da.from_delayed(made(i, v), (rows, p), float) for i in range(n // rows)])
        for v, p in enumerate(sizes)
    ]
    start = time.process_time()
    model = MultiViewPCA().fit(given)
    found = sorted(map(tuple, model.active_.tolist())) == sorted(map(tuple, pattern.tolist()))
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"    {time.process_time() - start:.0f} s of CPU, pattern right: {found}")
    line("memory of the process", f"{size:.1f} GB", "6 GB")


def main() -> None:
    compared(500, (1000, 600, 300))
    compared(5000, (2000, 2000, 500))
    patterns()
    distant()


if __name__ == "__main__":
    main()

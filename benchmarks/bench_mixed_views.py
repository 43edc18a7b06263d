"""Views of numbers, flags and counts: factors, patterns, and prediction of a view of flags.

The peers are the same model with all tables taken as numbers, and MOFA with likelihoods.
"""

from __future__ import annotations

import contextlib
import io
import resource
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from timing import heading

from bayespca import MultiViewPCA

PATTERN = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]], bool)
SIZES = {"numbers": 40, "flags": 60, "counts": 30}
STRENGTH = {"numbers": (0.5, 1.0), "flags": (1.0, 2.0), "counts": (0.4, 0.8)}
KINDS = {"flags": "bernoulli", "counts": "poisson"}
# Samples of the fit, and new ones.
KNOWN, NEW = 200, 200
# Draws of unknown scores of new samples, for the best possible prediction.
DRAWS = 400
# Factors that MOFA starts with, and the share of the variance below which it drops them.
MOST, DROPPED = 15, 0.01


class Simulated(NamedTuple):
    """Tables and scores of all samples, and loadings and means of the columns."""

    tables: dict[str, np.ndarray]
    scores: np.ndarray
    loadings: dict[str, np.ndarray]
    means: dict[str, np.ndarray]

    def some(self, rows: slice) -> dict[str, np.ndarray]:
        return {name: x[rows] for name, x in self.tables.items()}


def simulated(seed: int, n: int = KNOWN + NEW, times: int = 1) -> Simulated:
    """Five factors in different tables; `times` multiplies the numbers of columns."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, len(PATTERN)))
    tables, loadings, means = {}, {}, {}
    for v, (name, p) in enumerate((name, times * p) for name, p in SIZES.items()):
        strength = rng.uniform(*STRENGTH[name], size=len(PATTERN))
        B = rng.normal(size=(p, len(PATTERN))) * PATTERN[:, v] * strength
        mu = 0.5 * rng.normal(size=p) + (name == "counts")
        z = A @ B.T + mu
        loadings[name], means[name] = B, mu
        if name == "numbers":
            tables[name] = z + rng.normal(size=z.shape)
        elif name == "flags":
            tables[name] = (rng.random(z.shape) < expit(z)).astype(float)
        else:
            tables[name] = rng.poisson(np.exp(z)).astype(float)
    return Simulated(tables, A, loadings, means)


def is_right(active: np.ndarray) -> bool:
    return sorted(map(tuple, active.tolist())) == sorted(map(tuple, PATTERN.tolist()))


def log_loss(p: np.ndarray, x: np.ndarray) -> float:
    p = np.clip(np.broadcast_to(p, x.shape), 1e-9, 1 - 1e-9)
    return float(-(x * np.log(p) + (1 - x) * np.log(1 - p)).mean())


def best_possible(data: Simulated) -> np.ndarray:
    """Probabilities of flags given true loadings, and true scores of factors in other tables too.

    The scores of the factor that is in no other table are averaged over.
    """
    rng = np.random.default_rng(0)
    B, A = data.loadings["flags"], data.scores[KNOWN:]
    own = PATTERN[:, 1] & ~PATTERN[:, [0, 2]].any(axis=1)
    z = A[:, ~own] @ B[:, ~own].T + data.means["flags"]
    draws = rng.normal(size=(DRAWS, len(A), int(own.sum())))
    return np.mean([expit(z + a @ B[:, own].T) for a in draws], axis=0)


def mofa(given: dict[str, np.ndarray]) -> tuple[np.ndarray, float] | None:
    """The pattern that mofapy2 finds, and its CPU seconds; None if it is not installed."""
    try:
        from mofapy2.run.entry_point import entry_point
    except ImportError:
        return None
    kinds = {"numbers": "gaussian", "flags": "bernoulli", "counts": "poisson"}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = entry_point()
        model.set_data_options(scale_views=False)
        tables = [[x.copy()] for x in given.values()]
        model.set_data_matrix(tables, likelihoods=[kinds[name] for name in given])
        model.set_model_options(factors=MOST)
        model.set_train_options(iter=1000, dropR2=DROPPED, seed=1, quiet=True)
        model.build()
        model.run()
        seconds = time.process_time() - start
    W = model.model.nodes["W"].getExpectation()
    squares = np.array([(w**2).mean(axis=0) for w in W]).T
    # A factor is in a view if its squared loadings exceed a hundredth of the strongest ones.
    return squares > DROPPED * squares.max(axis=0), seconds


def large() -> None:
    for n, times in ((500, 15), (5000, 5)):
        sizes = " + ".join(str(times * p) for p in SIZES.values())
        data = simulated(0, n, times)
        start = time.process_time()
        model = MultiViewPCA(likelihood=KINDS).fit(data.tables)
        seconds = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"    {n:,}×({sizes}): {seconds:.1f} s of CPU, {model.n_iter_} sweeps, "
            f"{memory:.1f} GB, pattern right: {is_right(model.active_)}"
        )


def patterns(seeds: int = 50) -> None:
    heading(f"{KNOWN}×({' + '.join(map(str, SIZES.values()))}), {seeds} seeds: right patterns")
    right = {"ours": 0, "as numbers": 0, "mofapy2": 0}
    factors: dict[str, list[int]] = {name: [] for name in right}
    cpu: dict[str, list[float]] = {name: [] for name in right}
    losses, inside = [], []
    for seed in range(seeds):
        data = simulated(seed)
        known, new = data.some(slice(KNOWN)), data.some(slice(KNOWN, None))
        models = {}
        for name, kinds in (("ours", KINDS), ("as numbers", "normal")):
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                models[name] = MultiViewPCA(likelihood=kinds).fit(known)
            cpu[name].append(time.process_time() - start)
            right[name] += is_right(models[name].active_)
            factors[name].append(models[name].n_components_)
        if (peer := mofa(known)) is not None:
            right["mofapy2"] += is_right(peer[0])
            factors["mofapy2"].append(len(peer[0]))
            cpu["mofapy2"].append(peer[1])
        others = {name: new[name] for name in ("numbers", "counts")}
        found = models["ours"].predict_view(others, "flags")
        numbers = np.clip(models["as numbers"].predict_view(others, "flags"), 0.02, 0.98)
        every = (found, best_possible(data), numbers, known["flags"].mean(axis=0))
        losses.append([log_loss(p, new["flags"]) for p in every])
        inside.append([_held(models["ours"], new, name) for name in ("numbers", "counts")])
    for name, count in right.items():
        if factors[name]:
            low, high = min(factors[name]), max(factors[name])
            print(
                f"    {name}: {count} of {seeds}, {low} to {high} factors, "
                f"{np.median(cpu[name]):.2f} s of CPU"
            )
    ours, best, numbers, means = np.mean(losses, axis=0)
    print(
        f"    log loss of flags of new samples from the other tables: {ours:.3f}, with true "
        f"loadings and shared scores {best:.3f}, as numbers {numbers:.3f}, by means {means:.3f}"
    )
    shares = " and ".join(f"{share:.1%}" for share in np.mean(inside, axis=0))
    print(f"    two standard deviations hold {shares} of numbers and counts that are not given")


def main() -> None:
    patterns()
    large()


def _held(model: MultiViewPCA, new: dict[str, np.ndarray], name: str) -> float:
    others = {one: x for one, x in new.items() if one != name}
    mean, std = model.predict_view(others, name, return_std=True)
    return float((np.abs(new[name] - mean) < 2 * std).mean())


if __name__ == "__main__":
    main()

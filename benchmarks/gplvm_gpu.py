"""One step of the GP-LVM on an accelerator, against its exponentials alone: 20,000×100, Q = 10.

Run on a machine with a GPU: ``python benchmarks/gplvm_gpu.py``; needs torch.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from bayespca.nonlinear import bound, kernels, statistics
from bayespca.nonlinear.data import prepared
from bayespca.nonlinear.kernels import Latent
from bayespca.nonlinear.pairs import HOST, ArrayPairs, first_exponential, first_gradients

N, D, Q, M = 20_000, 100, 10, 100


def main() -> None:
    rng = np.random.default_rng(0)
    latent = Latent(rng.normal(size=(N, Q)), np.full((N, Q), 0.3))
    Y = np.sin(latent.mean @ rng.normal(size=(Q, D))) + 0.1 * rng.normal(size=(N, D))
    Z, hyper = (
        latent.mean[:M].copy(),
        kernels.first_hyper(kernels.SQUARED_EXPONENTIAL, np.full(Q, 0.1)),
    )
    place = "cuda" if torch.cuda.is_available() else "cpu"
    like = torch.empty(0, dtype=torch.float64, device=place)
    if place == "cuda":
        print(torch.cuda.get_device_name())
    # An exponential for each pair of inducing points, for the sums and for their gradients.
    exps = torch.randn((N, M * (M + 1) // 2), dtype=torch.float64, device=place)
    alone = 2 * timed(lambda: torch.exp(exps, out=exps), place)
    print(f"exponentials alone, N·M(M + 1) in all: {alone:.1f} ms")
    for name, pairs in (("device", ArrayPairs(like)), ("host, compiled", HOST)):
        data = prepared(Y, Y, center=True, per_feature=False, pairs=pairs)

        def evaluated(data=data):
            return bound.evaluate(latent, Z, hyper, data, np.array([4.0]), held=False).energy

        try:
            energy = evaluated()
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {timed(evaluated, place, times=5):.1f} ms, free energy {energy:.6f}")
    parts_on(ArrayPairs(like), latent, Z, hyper, Y, place)


def parts_on(pairs, latent, Z, hyper, Y, place: str) -> None:
    """Print the time of each part of an evaluation."""
    data = prepared(Y, Y, center=True, per_feature=False, pairs=pairs)
    args = tuple(map(pairs.moved, (latent.mean, latent.variance, Z, hyper.w)))
    weights = pairs.moved(np.ones((1, M * (M + 1) // 2)))
    psi1 = first_exponential(*args)
    at = statistics.statistics(latent, Z, hyper, data.rows)
    for words, work in {
        "latent points to the device": lambda: [*map(pairs.moved, (latent.mean, latent.variance))],
        "sums over pairs": lambda: pairs.total(*args),
        "their gradients": lambda: pairs.gradients(*args, weights),
        "psi1": lambda: first_exponential(*args),
        "its gradients": lambda: first_gradients(*args, psi1),
        "all statistics": lambda: statistics.statistics(latent, Z, hyper, data.rows),
        "all gradients": lambda: statistics.gradients(latent, Z, hyper, at[0], at, data.rows),
    }.items():
        print(f"    {words}: {timed(work, place):.1f} ms")


def timed(work, place: str, times: int = 10) -> float:
    """The median time in milliseconds."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        work()
        if place == "cuda":
            torch.cuda.synchronize()
        found.append(1e3 * (time.perf_counter() - start))
    return float(np.median(found[1:]))


if __name__ == "__main__":
    main()

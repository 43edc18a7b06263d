"""One step of the GP-LVM on an accelerator, against its exponentials alone: 20,000×100, Q = 10.

Run on a machine with a GPU: ``python benchmarks/gplvm_gpu.py``; needs torch.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from bayespca.nonlinear import bound, kernels
from bayespca.nonlinear.data import prepared
from bayespca.nonlinear.pairs import ArrayPairs
from bayespca.nonlinear.rowwise import Latent

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
    exps = torch.randn((N, M * M // 8), dtype=torch.float64, device=place)
    print(f"exponentials alone, 2×N·M² : {8 * timed(lambda: torch.exp(exps), place) * 2:.1f} ms")
    for name, pairs in (("device", ArrayPairs(like)), ("host, compiled", None)):
        data = prepared(Y, Y, center=True, per_feature=False, pairs=pairs)

        def evaluated(data=data):
            return bound.evaluate(latent, Z, hyper, data, np.array([4.0]), held=False).energy

        try:
            energy = evaluated()
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {timed(evaluated, place, times=3):.1f} ms, free energy {energy:.6f}")
    pairs = ArrayPairs(like)
    args = latent.mean, latent.variance, Z, hyper.w
    g1 = np.ones((N, M))
    print(f"psi1 on the device, brought here: {timed(lambda: pairs.first(*args), place):.1f} ms")
    work = timed(lambda: pairs.first_gradients(*args, g1), place)
    print(f"gradients of psi1 on the device, brought here: {work:.1f} ms")
    print(f"sums on the device: {timed(lambda: pairs.total(*args), place):.1f} ms")
    G = np.ones((M, M))
    print(f"gradients on the device: {timed(lambda: pairs.gradients(*args, G), place):.1f} ms")


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

"""Denoising on a GPU and on the cores of the host, up to a volume of the size of a scan.

Run ``python benchmarks/imaging_gpu.py`` on a machine with a GPU; needs torch, and CuPy to compute
eigenvectors on the device.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from bench_imaging import diffusion

from bayespca.arrays import cuda
from bayespca.imaging import Denoised, denoise


def timed(data: Any) -> tuple[float, Denoised]:
    """Wall-clock seconds, the shorter of two runs, and the result."""
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        found = denoise(data)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), found


def main() -> None:
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}")
    truth = diffusion()
    small = truth + 10 * np.random.default_rng(1).normal(size=truth.shape)
    large = np.tile(small, (3, 3, 4, 1)).astype(np.float32)
    print("eigenvectors on the device:", cuda.is_served(torch.zeros(1, device="cuda")))
    for name, data in (("float64", small), ("complex", small + 1j * small[::-1]), ("large", large)):
        on_device, found = timed(torch.as_tensor(data, device="cuda"))
        on_host, expected = timed(data)
        apart = np.abs(found.values.cpu().numpy() - expected.values).max() / np.abs(data).max()
        shape = "×".join(map(str, data.shape))
        print(
            f"    {shape}, {name}: {on_device:.2f} s there, {on_host:.2f} s here; "
            f"largest difference {apart:.0e} of the largest value",
            flush=True,
        )


if __name__ == "__main__":
    main()

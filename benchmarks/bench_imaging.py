"""Denoising of simulated diffusion MRI, against DIPY's `mppca`: errors, noise and time.

usage: python benchmarks/bench_imaging.py [picture.png]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from timing import heading

from bayespca.imaging import denoise

SHAPE, VOLUMES, S0 = (24, 24, 12), 60, 100.0


def diffusion(seed: int = 0, n_regions: int = 60) -> np.ndarray:
    """A simulated diffusion MRI of shape (24, 24, 12, 60), without noise.

    Regions have sharp borders and a diffusion tensor each, under a smooth proton density and fluid
    that fades in. Six volumes have no diffusion weighting, the others b = 1 or 2 ms/µm².
    """
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, s) for s in SHAPE), indexing="ij"), axis=-1)
    directions = _unit(rng.normal(size=(VOLUMES, 3)))
    b = np.where(np.arange(VOLUMES) % 2, 1.0, 2.0)
    b[:: VOLUMES // 6] = 0.0
    centres = rng.uniform(-1, 1, size=(n_regions, 3))
    region = ((grid[..., None, :] - centres) ** 2).sum(axis=-1).argmin(axis=-1)
    along, across = rng.uniform(1.0, 2.0, n_regions), rng.uniform(0.2, 0.8, n_regions)
    axis = _unit(rng.normal(size=(n_regions, 3)))
    cosines = (axis @ directions.T) ** 2
    tissue = np.exp(-b * (across[:, None] + (along - across)[:, None] * cosines))[region]
    fluid = 0.5 * (1 + np.tanh(4 * (grid[..., 0] ** 2 + grid[..., 1] ** 2 - 1.2)))[..., None]
    density = 1 + 0.2 * np.sin(3 * grid[..., 0]) * np.cos(2 * grid[..., 1])
    return S0 * density[..., None] * ((1 - fluid) * tissue + fluid * np.exp(-3.0 * b))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def by_dipy(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from dipy.denoise.localpca import mppca

    clean, sigma = mppca(data, patch_radius=2, return_sigma=True)
    return clean, np.where(sigma > 0, sigma, np.nan)


def ours(step: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    def work(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = denoise(data, step=step)
        return np.asarray(found.values), np.asarray(found.noise_std)

    return work


def main() -> None:
    ways = {"bayespca": ours(1), "bayespca, step 2": ours(2)}
    if find_spec("dipy") is not None:
        ways["DIPY's mppca"] = by_dipy
    truth = diffusion()
    ours(1)(truth + 1.0)
    for ratio in (10, 30):
        std = S0 / ratio
        data = truth + std * np.random.default_rng(1).normal(size=truth.shape)
        heading(f"diffusion MRI {'×'.join(map(str, truth.shape))}, signal-to-noise {ratio}")
        for name, way in ways.items():
            start, cpu = time.perf_counter(), time.process_time()
            clean, sigma = way(data)
            cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
            error = np.sqrt(np.mean((clean - truth) ** 2))
            off = 100 * (np.nanmean(sigma) / std - 1)
            print(
                f"    {name}: RMSE {error:.3f}, noise off by {off:+.1f} %, {cpu:.2f} s of CPU, "
                f"{seconds:.2f} s",
                flush=True,
            )


def picture(path: str) -> None:
    """Draw a slice noisy, denoised and true, the difference, and the maps of noise and rank."""
    from matplotlib import pyplot as plt

    truth = diffusion()
    data = truth + 10.0 * np.random.default_rng(1).normal(size=truth.shape)
    found = denoise(data)
    z, v = SHAPE[2] // 2, 1
    shown = {
        "one volume, signal-to-noise 10": (data[:, :, z, v], "gray", (0, 80)),
        "without its noise": (found.values[:, :, z, v], "gray", (0, 80)),
        "the truth": (truth[:, :, z, v], "gray", (0, 80)),
        "what was taken away": ((data - found.values)[:, :, z, v], "RdBu", (-30, 30)),
        "standard deviation of the noise": (found.noise_std[:, :, z], "viridis", (8, 12)),
        "number of components": (found.rank[:, :, z], "viridis", (0, 6)),
    }
    figure, axes = plt.subplots(2, 3, figsize=(9, 6.2), layout="constrained")
    for ax, (title, (values, colours, limits)) in zip(axes.flat, shown.items(), strict=True):
        image = ax.imshow(values.T, cmap=colours, clim=limits, origin="lower")
        ax.set_title(title, fontsize=10)
        ax.set_axis_off()
        figure.colorbar(image, ax=ax, shrink=0.8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    picture(sys.argv[1]) if sys.argv[1:] else main()

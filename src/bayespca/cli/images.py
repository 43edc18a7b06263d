"""`bayespca denoise` of NIfTI files."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from bayespca.imaging import Denoised, denoise
from bayespca.io.nifti_files import NiftiImage, check_nifti_ending, read_nifti, write_nifti

from . import screen
from .model_options import Imaging
from .outputs import check_places
from .progress import progress


def denoise_image(data: Path, out: Path, options: Imaging, *, as_json: bool) -> None:
    """Write a series of volumes without noise, and the requested maps."""
    places = [("--out", out), *options.maps]
    check_places(places, read=[("DATA", data), ("--mask", options.mask)])
    for _, path in places:
        check_nifti_ending(path)
    image, start = _read(data), time.perf_counter()
    shape = "×".join(map(str, image.values.shape))
    if image.values.ndim != 4:
        raise ValueError(
            f"{data} holds an image of {shape} voxels, but only a series of volumes, with four "
            "axes, shows what is noise: join the volumes into one file."
        )
    mask = None if options.mask is None else _read(options.mask).values
    found = _denoised(image.values, mask, options)
    maps = {"--noise-map": found.noise_std, "--rank-map": found.rank, "--std-map": found.std}
    write_nifti(out, np.asarray(found.values), image)
    written = {"denoised": str(out)}
    for name, path in options.maps:
        write_nifti(path, np.asarray(maps[name], dtype=np.float32), image)
        written[name[2:]] = str(path)
    seconds = time.perf_counter() - start
    noise, rank = float(np.nanmedian(found.noise_std)), float(np.nanmedian(found.rank))
    voxels = int(np.isfinite(found.noise_std).sum())
    if as_json:
        screen.print_json(
            {
                "file": str(data),
                "shape": list(image.values.shape),
                "patch": list(found.patch),
                "voxels": voxels,
                "noise_std": noise,
                "n_components": rank,
                "seconds": seconds,
                "written": written,
            }
        )
        return
    patch = "×".join(map(str, found.patch))
    facts = {
        "Noise": f"standard deviation {noise:.4g}, the median of {voxels:,} voxels",
        "Components": f"{rank:.2g} in a patch of {patch} voxels, the median",
    }
    screen.print_facts(data.name, f"{shape} image", facts)
    if not image.has_place:
        note = (
            f"{data.name} gives no position for its voxels (neither sform nor qform), so the "
            "written files have none either."
        )
        screen.print_notes([note])
    screen.print_footer(written, screen.took(seconds))


def _read(path: Path) -> NiftiImage:
    with progress(f"reading {path.name}"):
        return read_nifti(path)


def _denoised(values: np.ndarray, mask: np.ndarray | None, options: Imaging) -> Denoised:
    """The image without noise, with a display of the share of patches that are done."""
    with progress("denoising", 1.0) as advance:
        done = 0.0

        def callback(patches: int, total: int) -> None:
            nonlocal done
            advance(patches / total - done)
            done = patches / total

        return denoise(values, mask=mask, patch=options.patch, step=options.step, callback=callback)

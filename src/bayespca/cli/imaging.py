"""`bayespca denoise` of NIfTI files."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from bayespca.imaging import Denoised, denoise
from bayespca.io.nifti_files import NiftiImage, check_nifti_ending, read_nifti, write_nifti

from . import screen
from .imaging_options import Imaging
from .outputs import check_places
from .progress import progress


def denoise_image(data: Path, out: Path, options: Imaging, *, as_json: bool) -> None:
    """Write a series of volumes without noise, and the requested maps."""
    places = [("--out", out), *options.maps]
    check_places(places, read=[("DATA", data), ("--mask", options.mask)])
    for _, path in places:
        check_nifti_ending(path)
    image, start = _read(data), time.perf_counter()
    _check_series(data, image)
    mask = None if options.mask is None else _read(options.mask).values
    found = _found(image, mask, options)
    maps = {
        "--noise-map": found.noise_std,
        "--rank-map": found.rank,
        "--std-map": found.std,
    }
    write_nifti(out, np.asarray(found.values), image)
    for name, path in options.maps:
        write_nifti(path, np.asarray(maps[name], dtype=np.float32), image)
    written = {"denoised": str(out)} | {name[2:]: str(path) for name, path in options.maps}
    _say(data, image, found, written, time.perf_counter() - start, as_json=as_json)


def _check_series(path: Path, image: NiftiImage) -> None:
    if image.values.ndim != 4:
        shape = "×".join(map(str, image.values.shape))
        raise ValueError(
            f"{path} holds an image of {shape} voxels, but only a series of volumes, with four "
            "axes, shows what is noise: join the volumes into one file."
        )


def _read(path: Path) -> NiftiImage:
    with progress(f"reading {path.name}"):
        return read_nifti(path)


def _found(image: NiftiImage, mask: np.ndarray | None, options: Imaging) -> Denoised:
    with progress("denoising", 1.0) as advance:
        done = 0.0

        def said(patches: int, total: int) -> None:
            nonlocal done
            advance(patches / total - done)
            done = patches / total

        return denoise(
            image.values, mask=mask, patch=options.patch, step=options.step, callback=said
        )


def _say(
    data: Path,
    image: NiftiImage,
    found: Denoised,
    written: dict[str, str],
    seconds: float,
    *,
    as_json: bool,
) -> None:
    noise, rank = float(np.nanmedian(found.noise_std)), float(np.nanmedian(found.rank))
    shape, patch = ("×".join(map(str, size)) for size in (image.values.shape, found.patch))
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
    facts = {
        "Noise": f"standard deviation {noise:.4g}, the median of {voxels:,} voxels",
        "Components": f"{rank:.2g} in a patch of {patch} voxels, the median",
    }
    screen.print_facts(data.name, f"{shape} image", facts)
    if not image.has_place:
        screen.print_notes(
            [
                f"{data.name} gives no position for its voxels (neither sform nor qform), so the "
                "written files have none either."
            ]
        )
    screen.print_footer(written, screen.took(seconds))

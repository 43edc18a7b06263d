"""NIfTI files of images: series of volumes, with the positions of their voxels."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .packages import need
from .records import readable
from .writing import replacing

ENDINGS = (".nii", ".nii.gz")


@dataclass(frozen=True, eq=False)
class NiftiImage:
    """An image: its values in single precision, and nibabel's image with all other information."""

    values: np.ndarray
    source: Any

    @property
    def has_place(self) -> bool:
        """Whether the file gives the positions of its voxels."""
        header = self.source.header
        return bool(header["sform_code"] or header["qform_code"])


def is_nifti(path: Path) -> bool:
    """Whether a file has the name of a NIfTI file."""
    return path.name.lower().endswith(ENDINGS)


def read_nifti(path: Path) -> NiftiImage:
    """Read the image in a file, scaled as the file says."""
    nibabel = need("nibabel", f"reading {path}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    with readable(
        path, "NIfTI", nibabel.filebasedimages.ImageFileError, ValueError, OSError, EOFError
    ):
        source = nibabel.load(path)
        is_complex = source.get_data_dtype().kind == "c"
        values = np.asarray(source.dataobj, dtype=np.complex64 if is_complex else np.float32)
    return NiftiImage(values, source)


def check_nifti_ending(path: Path) -> None:
    """Raise if an image cannot be written to a file of this name."""
    if not is_nifti(path):
        raise ValueError(f"{path} would hold an image: its name must end with .nii or .nii.gz.")


def write_nifti(path: Path, values: np.ndarray, like: NiftiImage) -> None:
    """Write an image with the affine and the header of another, whole or not at all."""
    header = like.source.header.copy()
    header.set_data_dtype(values.dtype)
    data = type(like.source)(values, like.source.affine, header).to_bytes()
    with replacing(path) as file:
        if path.name.lower().endswith(".gz"):
            # Without a time stamp, equal images give equal files.
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                packed.write(data)
        else:
            file.write(data)

"""Options of `bayespca denoise` for images."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from bayespca.io.records import How

from .options import Fitting
from .panels import option, output

IMAGES = "Images (.nii, .nii.gz)"


@dataclass(frozen=True)
class Imaging:
    """Options for images: parameters of `bayespca.imaging.denoise`, and maps to write."""

    mask: Annotated[
        Path | None, option(panel=IMAGES, help="A file with the voxels that take part.")
    ] = None
    patch: Annotated[
        int | None,
        option(
            panel=IMAGES,
            min=2,
            help="Voxels of a patch along each axis; by default the fewest "
            "whose cube has more voxels than there are volumes.",
        ),
    ] = None
    step: Annotated[
        int, option(panel=IMAGES, min=1, help="Voxels from one patch to the next; 2 is faster.")
    ] = 1
    noise_map: Annotated[
        Path | None, output(help="An image of the standard deviation of the noise.")
    ] = None
    rank_map: Annotated[Path | None, output(help="An image of the number of components.")] = None
    std_map: Annotated[
        Path | None, output(help="An image of the posterior standard deviation of the signal.")
    ] = None

    @property
    def maps(self) -> list[tuple[str, Path]]:
        """Paths of the requested maps, with their options."""
        asked = {"--noise-map": self.noise_map, "--rank-map": self.rank_map}
        asked["--std-map"] = self.std_map
        return [(name, path) for name, path in asked.items() if path is not None]

    def refuse(self) -> None:
        """Raise if any of these options is given; call it for data that are not an image."""
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                raise ValueError(
                    f"{_named(field.name)} is for images (.nii, .nii.gz): leave it out."
                )


def refuse_for_images(fitting: Fitting, how: How, **others: object) -> None:
    """Raise if an option for tables or models is given for an image."""
    for name in [
        *fitting.changed(),
        *(name for name, given in others.items() if given is not None),
    ]:
        raise ValueError(f"{_named(name)} does not apply to an image: leave it out.")
    if how != How():
        raise ValueError("Options on how to read a table do not apply to an image: leave them out.")


def _named(field: str) -> str:
    return f"--{field.replace('_', '-')}"

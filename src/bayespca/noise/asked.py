"""Options of a PCA besides its closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, NoiseModel
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS

from .errors import KnownErrors

# Rules for the number of components: the most probable one, and EVB's own.
AUTO: Final = "auto"
EVB: Final = "evb"


@dataclass(frozen=True)
class Asked:
    """Options of a PCA besides its closed form; names and meanings as in `BayesianPCA`.

    `in_order` is whether columns have an order: None where the data have to show it.
    """

    noise: str = AUTO
    center: bool = True
    scale: bool = False
    engine: str = "auto"
    init: str = "closed"
    errors: KnownErrors | None = None
    number: str = AUTO
    least: int = 0
    in_order: bool | None = None


def first_noise(asked: Asked) -> NoiseModel:
    """The noise model to fit first."""
    return ISOTROPIC if asked.noise == AUTO else NOISES[asked.noise]


def compares(form: ClosedForm) -> bool:
    """Whether free energies are comparable between noise models: EVB with the noise estimated."""
    return form.method.name == "evb" and form.noise_variance == AUTO


def by_likelihood(form: ClosedForm, rank: int) -> ClosedForm:
    """The same form with `rank` components by maximum likelihood."""
    return replace(form, method=METHODS["ml"], n_components=rank, exactly=None)

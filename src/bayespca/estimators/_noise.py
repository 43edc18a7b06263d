"""What estimators say of the noise model that they were given, or that the evidence chose."""

from __future__ import annotations

from ._base import Fitted


class ChoosesNoise:
    """For records with a field `noise` that has a name and what was tried."""

    noise_ = Fitted(
        "str", "The noise model: the one asked for, or chosen.", lambda fit: fit.noise.name
    )
    noise_evidence_ = Fitted(
        "dict",
        'With ``noise="auto"``, for each noise model that was tried by how many nats its evidence '
        "exceeds that of isotropic noise.",
        lambda fit: fit.noise.evidence,
    )

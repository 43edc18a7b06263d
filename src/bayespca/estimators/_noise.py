"""Fitted attributes about the noise model, whether it was given or chosen by the evidence."""

from __future__ import annotations

from ._base import Fitted


class ChoosesNoise:
    """For records with a field `noise` that has a name and the evidence of the models tried."""

    noise_ = Fitted("str", "The noise model, as given or as chosen.", lambda fit: fit.noise.name)
    noise_evidence_ = Fitted(
        "dict",
        'With ``noise="auto"``, the nats by which the evidence of each noise model that was tried '
        "exceeds that of isotropic noise.",
        lambda fit: fit.noise.evidence,
    )

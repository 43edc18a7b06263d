"""What a posterior would predict of a rating that it has seen, had it not seen it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

# The leverage h that a rating may have. Beyond it the formula goes too far, as users and items
# follow each other: on simulated ratings residuals are a quarter too large at 0.5, and two thirds
# at 0.7.
LARGEST = 0.5


class LeftOut(NamedTuple):
    """Mean of each rating, and the variance of this mean, without the rating itself; NaN where its
    leverage is above `LARGEST`.
    """

    mean: FloatArray
    variance: FloatArray


def left_out(
    mean: FloatArray, variance: FloatArray, noise: FloatArray, values: FloatArray
) -> LeftOut:
    """The normal density N(mean, variance) over the likelihood N(value | ·, noise) of one rating:

        mean − (value − mean)·h/(1 − h),    variance/(1 − h),    h = variance/noise,

    exact where the posterior is normal and the model linear (Allen 1974), as it is in one side
    given the other. Noise and priors stay as they were found with all ratings.
    """
    h = variance / noise
    h = np.where(h <= LARGEST, h, np.nan)
    return LeftOut(mean - (values - mean) * h / (1 - h), h * noise / (1 - h))

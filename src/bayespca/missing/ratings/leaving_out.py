"""Predictions of observed ratings, each as if it had been left out of the fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

# Largest leverage h of a rating. Beyond it the formula overshoots, because users and items adapt to
# each other: on simulated ratings residuals are a quarter too large at 0.5, and two thirds at 0.7.
LARGEST = 0.5


class LeftOut(NamedTuple):
    """Mean of each rating, and the variance of this mean, without the rating itself.

    Both are NaN if its leverage is above `LARGEST`.
    """

    mean: FloatArray
    variance: FloatArray


def left_out(
    mean: FloatArray, variance: FloatArray, noise: FloatArray, values: FloatArray
) -> LeftOut:
    """Divide the density N(mean, variance) of a rating by its likelihood N(value | ·, noise):

        mean − (value − mean)·h/(1 − h),    variance/(1 − h),    h = variance/noise.

    This is exact if the posterior is normal and the model linear (Allen 1974), as is the case for
    one side given the other. Noise and priors stay as they were found with all ratings.
    """
    h = variance / noise
    h = np.where(h <= LARGEST, h, np.nan)
    return LeftOut(mean - (values - mean) * h / (1 - h), h * noise / (1 - h))

"""Tolerances that several modules share, with the reason for each.

A number that belongs to one algorithm alone (how many rounds, how large a block) stays with it.
"""

from __future__ import annotations

import numpy as np

LOG_2PI = float(np.log(2 * np.pi))
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)

# Rounding.
# Relative to Σx²: what is left of sums that cancel.
ROUNDING = 1e-12
# Relative to the largest value: what is left of equal numbers when their mean is subtracted.
ROUNDING_OF_MEAN = 1e-14
# Relative to the largest value: deviations from the mean that are rounding errors.
ROUNDING_OF_DEVIATIONS = 1e-12
# Relative rise of a free energy that always passes for rounding.
SLACK_OF_FREE_ENERGY = 1e-9
# Singular values computed in float32 carry 1e-7 relative error, so the sum of squares that comes
# with them may disagree by a little more than that before anything is wrong.
SLACK_OF_SPECTRUM = 1e-6
# Relative to the largest: rounding errors of singular values that are roots of eigenvalues.
RESOLUTION_OF_SQUARES = EPS**0.5
# Singular values below this many rounding errors of the largest may be exact zeros: what LAPACK
# leaves of those, with room to spare.
ROUNDING_ERRORS = 16
# Residuals smaller than this, relative to the sum of squares, are not taken from a difference.
CANCELS = 1e-6
# Relative to its diagonal: added to a matrix that rounding errors keep from positive definite.
JITTER = 1e-12
# Relative to the largest: a moment too small to whiten coordinates with.
SINGULAR = 1e-8
# Relative to the largest: an eigenvalue of Σwwᵀ over the cells of a row that counts as 0.
UNDETERMINED = 1e-12

# The least noise, relative to the mean square of the data unless said otherwise.
# Complete data: the residual is computed from the spectrum, to nearly all digits.
LEAST_NOISE_OF_SWEEPS = 1e-14
# Data with holes: noise below it is rounding.
LEAST_NOISE_WITH_HOLES = 1e-12
# Tensors: less would be below the rounding errors of a factor beside components that are on their
# way to zero.
LEAST_NOISE_OF_TENSORS = 1e-10
# Bishop's model with holes, where the iteration starts.
LEAST_NOISE_AT_START = 1e-8
# Maximum likelihood with holes, which has no bound where there are fewer cells than parameters.
LEAST_NOISE_OF_ML = 1e-6
# Relative to the variance of a feature: below it a feature is its components' exact image, and the
# likelihood grows without bound (a Heywood case).
LEAST_NOISE_OF_FEATURES = 1e-6
# Noise taken from EVB: with less, a point-estimated factor loses all its digits.
LEAST_BORROWED = 1e-9
# Noise taken from EVB, for complete data, whose sweeps are held against a finer measure.
LEAST_BORROWED_OF_SWEEPS = 1e-7
# Noise taken from EVB, for tensors, where there are several such factors.
LEAST_BORROWED_OF_TENSORS = 1e-6
# Clusters in data without noise: a density needs some.
NO_NOISE = 1e-30
# Where an iteration starts from a guess: more would switch off weak components before it falls.
START_NOISE = 0.1

# Components on their way out.
# Relative to the size of the data: a component whose learned prior has shrunk to this is gone. One
# that the data do not support gets there in a few sweeps, and would go on to 0.
GONE = 1e-10
# `GONE` in units of logits, which have a scale of their own.
GONE_OF_BITS = 1e-8
# Relative to the size of the data: a point estimate this small is on its way to zero.
VANISHED = 1e-6
# Squared mean over variance of a component that is on its way to zero.
VANISHING = 1e-4
# Squared mean over variance below which a column of Bishop's W is switched off.
SWITCHED_OFF = 1e-2
# Relative fall of the free energy below which components have found their places: before, weak ones
# may still grow.
CALM = 1e-4

# Bounds that keep numbers finite.
# Prior variance, in units of the data, that leaves a component unconstrained.
WIDE = 1e12
# Smallest learned prior variance of a mode of a tensor, whose components are dropped by `GONE`.
LEAST_PRIOR = 1e-16
# σ² over the prior variance of scores, beside directions of length 1.
LEAST_RIDGE = 1e-8
# The smallest prior variance of the means of binary data.
LEAST_SPREAD = 1e-6
# Closest that a maximum-likelihood probability may come to 0 and 1: what was never seen is
# improbable, not impossible.
LEAST_PROBABILITY = 1e-9

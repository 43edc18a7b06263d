"""The trace of every iterative fit ends where the fit does, in the units of the data."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import (
    GPLVM,
    BayesianPCA,
    BayesianTucker,
    BernoulliMixture,
    BinaryPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
)
from bayespca.datasets import low_rank, low_rank_tensor

RNG = np.random.default_rng(0)
X = 7 * low_rank(80, 12, 3, random_state=0).X + 3
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
T = 7 * low_rank_tensor((8, 9, 10), (2, 2, 2), random_state=0).T + 3
BITS = (X > 3).astype(float)
RATED = np.nonzero(~np.isnan(HOLES))

FITS = {
    "iterative": lambda: BayesianPCA(solver="iterative", random_state=0).fit(X),
    "iterative, scaled": lambda: BayesianPCA(solver="iterative", scale=True, random_state=0).fit(X),
    "iterative, epb": lambda: BayesianPCA("epb", solver="iterative", random_state=0).fit(X),
    "per feature": lambda: BayesianPCA(noise="per-feature").fit(X),
    "holes": lambda: BayesianPCA().fit(HOLES),
    "holes, scaled": lambda: BayesianPCA(scale=True).fit(HOLES),
    "holes, emap": lambda: BayesianPCA("emap").fit(HOLES),
    "holes, per feature": lambda: BayesianPCA(noise="per-feature").fit(HOLES),
    "variational": lambda: VariationalPCA().fit(X),
    "variational, holes": lambda: VariationalPCA().fit(HOLES),
    "ratings": lambda: MatrixFactorization().fit_ratings(*RATED, HOLES[RATED]),
    "tensor": lambda: BayesianTucker().fit(T),
    "mixture": lambda: PCAMixture(2, random_state=0).fit(X),
    "binary mixture": lambda: BernoulliMixture(2, random_state=0).fit(BITS),
    "binary": lambda: BinaryPCA(random_state=0).fit(BITS),
    "curves": lambda: GPLVM(3, n_inducing=10, random_state=0).fit(X),
    "curves, holes": lambda: GPLVM(3, n_inducing=10, random_state=0).fit(HOLES),
    "curves, per feature": lambda: GPLVM(3, n_inducing=10, noise="per-feature", random_state=0).fit(
        X
    ),
    "curves, points": lambda: GPLVM(2, "map").fit(X),
}


@pytest.mark.parametrize("name", FITS)
def test_the_trace_ends_where_the_fit_does(name):
    model = FITS[name]()
    trace = model.trace_
    assert trace.free_energy[-1] == pytest.approx(model.free_energy_, rel=1e-9)
    # Mixtures and binary data, for instance, have no single noise variance to compare.
    one_noise = ("iterative", "iterative, scaled", "holes", "variational", "ratings", "tensor")
    if name in (*one_noise, "curves", "curves, holes"):
        assert trace.noise_variance[-1] == pytest.approx(model.noise_variance_, rel=1e-9)

"""Data without noise, or next to no data: no exception, no NumPy warning, finite results."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA

RNG = np.random.default_rng(0)
LOW = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 8))
DATA = {
    "1 row": RNG.normal(size=(1, 5)),
    "2 rows": RNG.normal(size=(2, 5)),
    "3 rows": RNG.normal(size=(3, 6)),
    "1 column": RNG.normal(size=(30, 1)),
    "2 columns": RNG.normal(size=(30, 2)),
    "constant": np.full((20, 5), 3.0),
    "zeros": np.zeros((10, 4)),
    "one row varies": np.r_[np.zeros((9, 4)), [[1.0, 2.0, 3.0, 4.0]]],
    "low rank": LOW,
    "tiny low rank": 1e-100 * LOW,
    "equal columns": np.repeat(RNG.normal(size=(40, 3)), 2, axis=1),
    "equal rows": np.repeat(RNG.normal(size=(3, 6)), 10, axis=0),
    "booleans": RNG.random((50, 6)) < 0.3,
    "huge": 1e150 * RNG.normal(size=(30, 6)),
    "tiny": 1e-150 * RNG.normal(size=(30, 6)),
    "counts": RNG.poisson(0.5, size=(60, 8)),
    "one far row": np.r_[RNG.normal(size=(30, 6)), 1e6 * RNG.normal(size=(1, 6))],
    "heavy": RNG.standard_cauchy(size=(60, 6)),
}
SILENT = ("1 row", "constant", "zeros")
ATTRIBUTES = (
    *("noise_variance_", "feature_noise_variance_", "sample_noise_variance_", "mean_"),
    *("components_", "components_std_", "singular_values_", "explained_variance_"),
    *("rank_posterior_", "outlier_probability_"),
)
NOISES = ["auto", "per-feature", "per-sample", "both", "autoregressive"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", DATA)
def test_nothing_breaks(name, noise):
    X = DATA[name]
    if noise == "autoregressive" and X.shape[1] < 3:
        with pytest.raises(ValueError, match="at least three features"):
            BayesianPCA(noise=noise).fit(X)
        return
    found = BayesianPCA(noise=noise).fit(X)
    for attribute in ATTRIBUTES:
        value = getattr(found, attribute)
        assert value is None or np.isfinite(value).all(), attribute
    assert np.isfinite(found.free_energy_) or name in SILENT
    assert np.isfinite(list(found.noise_evidence_.values())).all()
    T, std = found.transform(X, return_std=True)
    for values in (T, std, found.inverse_transform(T), found.score_samples(X)):
        assert np.isfinite(values).all()
    assert np.isfinite(found.get_covariance()).all()
    assert np.isfinite(found.sample(3, random_state=0)).all()

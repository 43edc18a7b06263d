"""A probability of the number of components is calibrated; other models give free energies."""

from __future__ import annotations

import numpy as np
import pytest

import bayespca
from bayespca import GPLVM, BinaryPCA, GeneralizedPCA, MultiViewPCA
from bayespca.datasets import low_rank

X = low_rank(80, 12, 3, random_state=0).X
BITS = (np.random.default_rng(0).random(X.shape) < 1 / (1 + np.exp(-2 * X))).astype(float)
FITS = {
    "bits": lambda: BinaryPCA().fit(BITS),
    "table": lambda: GeneralizedPCA(likelihood="normal").fit(X),
    "views": lambda: MultiViewPCA().fit({"a": X[:, :6], "b": X[:, 6:]}),
    "curves": lambda: GPLVM(4, n_inducing=10, max_iter=10, random_state=0).fit(X[:40]),
}


def test_only_calibrated_probabilities_are_called_so():
    public = [getattr(bayespca, name) for name in bayespca.__all__]
    with_it = {cls.__name__ for cls in public if hasattr(cls, "rank_posterior_")}
    assert with_it == {"BayesianPCA", "GibbsPCA"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_number_found_has_the_lowest_of_those_tried(name):
    model = FITS[name]()
    by_rank, k = model.free_energy_by_rank_, model.n_components_
    assert by_rank[k] == by_rank.min() == 0
    if model.converged_:
        # The search has tried a neighbour, and what was not tried has no number.
        assert np.isfinite(by_rank).sum() > 1
    tried = set(model.trace_.rank.tolist())
    assert tried <= set(np.flatnonzero(np.isfinite(by_rank)).tolist())


def test_they_are_those_of_fits_with_fewer():
    """A trial stops once it is clear that it stays worse, so its free energy is an upper bound."""
    model = BinaryPCA().fit(BITS)
    k = model.n_components_
    fewer = BinaryPCA(n_components=k - 1, tol=1e-10).fit(BITS).free_energy_ - model.free_energy_
    assert fewer > 0
    assert fewer - 1e-3 <= model.free_energy_by_rank_[k - 1] <= 1.1 * fewer

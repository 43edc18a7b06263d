"""`status_` says how a fit ended; the command, the report and notebooks repeat what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import (
    GPLVM,
    BayesianPCA,
    BayesianTucker,
    BernoulliMixture,
    BinaryPCA,
    GeneralizedPCA,
    GibbsPCA,
    MatrixFactorization,
    MultiViewPCA,
    PCAMixture,
    VariationalPCA,
)
from bayespca.datasets import low_rank
from bayespca.estimators._notebook import fragment
from bayespca.estimators.findings import findings_of
from bayespca.report import render

X = low_rank(80, 12, 3, random_state=0).X
HOLES = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
BITS = (X > 0).astype(float)
TWO = {"max_iter": 2, "tol": 0.0}
EARLY = {
    "noise of features": lambda: BayesianPCA(noise="per-feature", **TWO).fit(X),
    "holes": lambda: BayesianPCA(**TWO).fit(HOLES),
    "variational": lambda: VariationalPCA(**TWO).fit(X),
    "bits": lambda: BinaryPCA(**TWO).fit(BITS),
    "table": lambda: GeneralizedPCA(**TWO).fit(X),
    "views": lambda: MultiViewPCA(**TWO).fit({"a": X[:, :6], "b": X[:, 6:]}),
    "curves": lambda: GPLVM(2, n_inducing=8, random_state=0, **TWO).fit(X),
    "mixture": lambda: PCAMixture(3, random_state=0, **TWO).fit(X),
    "mixture of bits": lambda: BernoulliMixture(3, random_state=0, **TWO).fit(BITS),
    "ratings": lambda: MatrixFactorization(random_state=0, **TWO).fit(HOLES),
    "tensor": lambda: BayesianTucker(random_state=0, **TWO).fit(X.reshape(20, 4, 12)),
}


@pytest.mark.parametrize("noise", ["isotropic", "auto"])
def test_a_closed_form_is_exact(noise):
    status = BayesianPCA(noise=noise).fit(X).status_
    assert str(status) == "exact"
    assert status.exact


def test_an_iteration_is_not_exact_even_if_it_converged():
    for model in (BayesianPCA(solver="iterative").fit(X), BayesianPCA().fit(HOLES)):
        assert model.converged_
        assert str(model.status_) == f"converged after {model.n_iter_} steps"
        assert not model.status_.exact


def test_advice_follows():
    X = low_rank(60, 8, 2, random_state=0).X
    status = BayesianPCA(noise="per-feature").fit(np.column_stack([X, X[:, 0] + X[:, 1]])).status_
    (first, *_) = status.advice
    assert str(status).startswith("Converged after ")
    assert f" steps. {first.text}" in str(status)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", EARLY)
def test_what_did_not_converge_says_so_everywhere(name):
    model = EARLY[name]()
    assert not model.converged_
    assert not model.status_.exact
    words = f"Did not converge: stopped after {model.n_iter_} steps; raise max_iter or tol."
    assert str(model.status_).startswith(words)
    assert words in [note.text for note in findings_of(model).notes]
    assert words in fragment(model)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "data"), [("holes", HOLES), ("bits", BITS), ("mixture", X)])
def test_the_report_says_so(name, data):
    assert "stopped after 2 steps; raise max_iter or tol." in render(EARLY[name](), data)


CHAINS = {"n_draws": 20, "n_warmup": 2, "n_chains": 3, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "data", "limit"),
    [
        (GibbsPCA(3, **CHAINS), X, 1.01),
        (BinaryPCA(2, method="gibbs", **CHAINS), BITS, 1.1),
        (GeneralizedPCA(2, method="gibbs", **CHAINS), BITS, 1.1),
        (MatrixFactorization("gibbs", **CHAINS), HOLES, 1.2),
    ],
    ids=["numbers", "bits", "table", "ratings"],
)
def test_draws_are_counted_and_their_mixing_is_judged(model, data, limit):
    status = model.fit(data).status_
    assert str(status).startswith("60 draws from the posterior")
    assert not status.exact
    largest = max(float(np.max(value)) for value in model.r_hat_.values())
    assert ("not-mixed" in status) == (largest > limit)
    assert findings_of(model).notes == status.advice


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_short_chains_are_named():
    status = GibbsPCA(3, **CHAINS).fit(X).status_
    assert "few-draws" in status
    assert "not-mixed" in status

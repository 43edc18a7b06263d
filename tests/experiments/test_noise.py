"""What the programs about noise rest on: peers written here, and how held-out cells are scored."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.cli import reproducing
from bayespca.datasets import noisy

package = reproducing.experiments().__name__
bicross, heldout, peers, ranks = (
    import_module(f"{package}.noise.{name}") for name in ("bicross", "heldout", "peers", "ranks")
)


@pytest.mark.parametrize("rank", [0, 3])
def test_bi_cross_validation_finds_the_rank_of_white_noise(rank):
    X = noisy("white", 200, 60, 3, strength=0.6 if rank else 0.0, random_state=0).X
    assert bicross.chosen_rank(X - X.mean(axis=0), seed=0) == rank


def test_an_exact_product_is_predicted_without_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 15))
    rows, columns = np.arange(20) < 4, np.arange(15) < 3
    errors = bicross._errors(X, rows, columns, most=5)
    assert errors[0] == pytest.approx(np.sum(X[:4, :3] ** 2))
    assert errors[1] > 1e-3
    assert errors[2:] == pytest.approx(np.zeros(4), abs=1e-20)


@pytest.mark.parametrize("strength", [0.6, 0.0])
def test_sign_flips_find_the_rank_of_white_noise(strength):
    made = noisy("white", 200, 60, 3, strength=strength, random_state=0)
    assert peers.sign_flips(made.X, 0) == made.rank
    assert peers.sign_flips(made.X, 0) == peers.sign_flips(made.X, 0)


def test_knowing_rank_and_noise_leaves_less_than_the_noise():
    made = noisy("both", 200, 60, 3, random_state=0)
    freedom = 3 * (200 + 60 - 3) / (200 * 60)
    assert ranks._error(made, peers.informed(made)) == pytest.approx(np.sqrt(freedom), rel=0.15)


def test_held_out_cells_of_a_known_distribution_are_scored_as_they_should_be():
    """Standard normal cells, predicted as such."""
    Y = np.random.default_rng(0).normal(size=(2000, 10))
    Y /= Y.std(axis=0)
    hidden = np.random.default_rng(1).random(Y.shape) < 0.5
    predicted = SimpleNamespace(
        impute=lambda X, return_std: (np.zeros(X.shape), np.ones(X.shape)),
        degrees_of_freedom_=np.inf,
        noise_="isotropic",
    )
    score = heldout.scored(heldout.Cells("normal", Y, hidden), predicted)
    assert score.log_density == pytest.approx(-0.5 * np.log(2 * np.pi * np.e), abs=0.02)
    assert score.coverage == pytest.approx(0.95, abs=0.006)
    assert score.error == pytest.approx(1.0, abs=0.02)


def test_rows_tell_their_noise_and_cells_do_not():
    cells = heldout.Cells("x", np.zeros((2, 3)), np.array([[True, False, False], [False] * 3]))
    for noise, expected in (("per-sample", 6.0), ("student-cells", 4.0)):
        model = SimpleNamespace(degrees_of_freedom_=4.0, noise_=noise)
        assert heldout._freedom(cells, model) == pytest.approx([expected])


@pytest.mark.parametrize("scale", [False, True])
def test_isotropic_noise_is_that_of_the_estimator(scale):
    X = noisy("columns", 100, 30, 3, random_state=0).X
    model = BayesianPCA(noise="isotropic", scale=scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ranks.isotropic(X, scale=scale) == model.fit(X).n_components_

"""Components without a mean under a given prior: they come back, and their spread counts."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.inference.fitting import settle
from bayespca.missing.dense.posterior import has_mean

from .sweeping import asked, with_holes


@pytest.mark.parametrize("prior_variance", [2.0, 30.0])
def test_a_component_that_was_taken_away_grows_again(prior_variance):
    _, Y = with_holes(60, 8, 3, 0.1)
    model, table = asked(Y, method="vb", prior_variance=prior_variance)
    looping = inference.Looping(max_iter=3000, tol=1e-13)
    run = settle(model, table, looping).run
    state, rows = run.state, table.rows
    for h in np.flatnonzero(~has_mean(state, rows, model))[::-1]:
        state = state.without(h)
    rank = state.rank
    assert rank >= 3
    # The noise has to be that of fewer components for another one to stand out.
    fewer = inference.run(
        lambda now: model.step(now, table), state.without(rank - 1), max_iter=3000, tol=1e-12
    )
    more = model.grown(fewer.state, table)
    assert more is not None
    assert more.rank >= rank
    again = inference.run(lambda now: model.step(now, table), more, max_iter=3000, tol=1e-13)
    assert again.free_energy < fewer.free_energy - 0.5
    assert again.free_energy == pytest.approx(run.free_energy, abs=1e-4)


@pytest.mark.parametrize("prior_variance", [2.0, 200.0])
def test_their_spread_is_part_of_the_squares_of_cells(prior_variance):
    """Otherwise the free energy would rise where cells have noise of their own: a warning."""
    rng = np.random.default_rng(0)
    X, Y = with_holes(40, 7, 2, 0.15, noise=0.5)
    gross = rng.random(Y.shape) < 0.03
    Y = Y + 20 * gross * rng.normal(size=Y.shape)
    options = {"method": "vb", "prior_variance": prior_variance, "tol": 1e-10, "max_iter": 2000}
    model = BayesianPCA(noise="student-cells", **options).fit(Y)
    F = model.fit_.trace.free_energy
    assert (np.diff(F) <= 1e-9 * np.abs(F[-1])).all()
    equal = BayesianPCA(noise="isotropic", **options).fit(Y)
    assert model.free_energy_ < equal.free_energy_
    errors = [np.sqrt(np.mean((one.denoise(Y) - X) ** 2)) for one in (model, equal)]
    assert errors[0] < errors[1]

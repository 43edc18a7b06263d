"""Intervals include the uncertainty of the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.lowrank.imputing import Unknown
from bayespca.lowrank.intervals import degrees_of_noise


@pytest.fixture(scope="module")
def white():
    """A fit of 40×20 white noise that finds no component."""
    X = np.random.default_rng(0).normal(size=(40, 20))
    fit = BayesianPCA(noise="isotropic", center=False).fit(X).fit_
    assert fit.n_components == 0
    return fit


def test_noise_that_is_white_has_a_degree_for_each_cell(white):
    known = replace(white, left_out=np.empty((0, 2)))
    assert degrees_of_noise(known) == 800


@pytest.mark.parametrize("strength", [2.0, 10.0])
def test_components_that_were_left_out_make_the_noise_less_certain(white, strength):
    """The mean square of data with such a component has a relative variance of 2/ν."""
    total = 1 + strength / 20
    pairs = np.array([[strength / total, 1.0]])
    degrees = degrees_of_noise(replace(white, left_out=pairs))
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 40, 20))
    X[:, :, 0] *= np.sqrt(1 + strength)
    sizes = (X**2).mean(axis=(1, 2))
    assert 2 * sizes.mean() ** 2 / sizes.var() == pytest.approx(degrees, rel=0.1)
    assert degrees < 790


def test_a_noise_variance_that_is_given_is_known():
    X = np.random.default_rng(2).normal(size=(30, 8))
    X[0, 0] = np.nan
    given = BayesianPCA(noise_variance=1.0, noise="isotropic").fit(X)
    assert given.uncertain_posterior()[1].wider == 1
    found = BayesianPCA(noise="isotropic").fit(X).uncertain_posterior()[1]
    assert 1 < found.wider < 1.02


def test_students_t_has_its_variance():
    assert Unknown(np.zeros((1, 1, 1)), degrees=10.0).wider == pytest.approx(1.25)

"""`ClosedForm` gives the answers of `solve`, keeps them, and says how many values they need."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import METHODS, Spectrum, solve
from bayespca.spectrum.forms import EVERYTHING, ClosedForm

SPECTRUM = Spectrum(np.array([9.0, 6.0, 2.0, 1.5, 1.0]), (5, 20))


@pytest.mark.parametrize(
    ("method", "cap", "needed"),
    [
        ("evb", None, 0),
        ("emap", None, 0),
        ("evb", 3, 3),
        ("epb", None, EVERYTHING),
        ("map", None, EVERYTHING),
        ("ml", 2, 2),
        ("laplace", None, EVERYTHING),
        # The evidence of a rank depends on all singular values, also with a cap.
        ("laplace", 2, EVERYTHING),
    ],
)
def test_how_many_singular_values_are_needed(method, cap, needed):
    assert ClosedForm(METHODS[method], cap).n_needed == needed


@pytest.mark.parametrize(
    ("method", "noise", "prior", "estimates"),
    [
        ("evb", "auto", None, True),
        ("evb", 1.0, None, False),
        ("evb", "0db", None, False),
        ("epb", "auto", None, False),
        ("vb", "auto", 2.0, True),
        ("vb", "auto", None, False),
        ("ml", "auto", None, True),
    ],
)
def test_whether_the_noise_is_estimated(method, noise, prior, estimates):
    form = ClosedForm(METHODS[method], 2, noise, prior)
    assert form.estimates_noise == estimates


def test_the_answer_is_that_of_solve_and_is_kept():
    form = ClosedForm(METHODS["vb"], 99, 0.5, 3.0)
    found = form(SPECTRUM)
    plain = solve(SPECTRUM, "vb", noise_variance=0.5, prior_variance=3.0, max_rank=5)
    assert found.free_energy == plain.free_energy
    assert found.rank == plain.rank
    assert form(SPECTRUM) is found


def test_its_text_tells_options_apart():
    """The text is part of a checkpoint's fingerprint, and must be the same in another process."""
    assert repr(ClosedForm(METHODS["evb"], 2)) != repr(ClosedForm(METHODS["evb"], 3))
    assert " at 0x" not in repr(ClosedForm())

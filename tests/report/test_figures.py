"""Numbers, names and JSON behind the figures and tables of a report."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayespca.report.figures import numbers, plain
from bayespca.report.loadings import places_for, signed, spread
from bayespca.report.page import to_json


def test_json_is_strict_and_cannot_close_a_script():
    text = to_json({"x": [float("nan"), float("inf"), 1.5], "name": "</script>&\u2028"})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"x": [None, None, 1.5], "name": "</script>&\u2028"}


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1.0, 1e12, 1e300])
def test_numbers_are_rounded_relatively(unit):
    values = unit * np.array([1.23456789, -0.5, 0.0])
    np.testing.assert_allclose(numbers(values), values, atol=1e-3 * unit)
    assert numbers([np.inf, 1.0])[1] == 1.0


def test_names_are_no_markup():
    assert plain("<b>&amp;") == "&lt;b&gt;&amp;amp;"


@pytest.mark.parametrize(
    ("value", "std", "longest", "text"),
    [
        (0.4231, 0.0312, 0.7, "+0.42 ± 0.03"),
        (-0.4231, 0.0021, 1.0, "−0.42 ± 0.002"),
        (-0.001, 0.00001, 1.0, "0.00 ± <0.001"),
        (0.0523, 0.0041, 0.07, "+0.052 ± 0.004"),
        (0.0, 0.2, 0.3, "0.00 ± 0.20"),
    ],
)
def test_loadings_have_the_digits_they_need(value, std, longest, text):
    places = places_for(longest)
    assert f"{signed(value, places)} ± {spread(std, places)}" == text


def test_point_estimates_have_no_spread():
    assert spread(0.0, 2) is None

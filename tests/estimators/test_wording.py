"""Numbers in words."""

from __future__ import annotations

import math

import pytest

from bayespca.estimators.wording import counted, likelihood, percent, plural, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (-0.51449, "−0.514"),
        (154.8, "155"),
        (1234.0, "1,230"),
        (3.5e8, "3.50·10⁸"),
        (1.5e-7, "1.50·10⁻⁷"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not known"),
    ],
)
def test_significant(value, text):
    assert significant(value) == text


def test_significant_digits():
    assert significant(8447.163, 6) == "8447.16"
    assert significant(350984.0, 6) == "350984"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1e-5, "under 0.1 %"),
        (0.004, "0.4 %"),
        (0.36, "36 %"),
        (0.997, "99.7 %"),
        (0.9999, "over 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


def test_no_certainty():
    assert likelihood(1.0).startswith("over 99")


def test_counting():
    assert [counted(n) for n in (0, 1, 10, 11, 12000)] == ["no", "one", "ten", "11", "12,000"]
    assert plural(1, "sample") == "1\N{NO-BREAK SPACE}sample"
    assert plural(2000, "sample") == "2,000\N{NO-BREAK SPACE}samples"

"""When a computed number agrees with a printed one."""

from __future__ import annotations

from importlib import import_module

import pytest

from bayespca.cli import reproduction

reproduction.experiments()
comparing = import_module(f"{reproduction.PACKAGE}.comparing")


def test_a_number_must_agree_in_every_printed_digit():
    assert comparing.number("x", 10, 10).verdict == comparing.AS_PRINTED
    assert comparing.number("x", 10, 11).verdict == comparing.DIFFERS
    assert comparing.number("x", 0.148, 0.1484, digits=3).verdict == comparing.AS_PRINTED
    assert comparing.number("x", 0.148, 0.1486, digits=3).verdict == comparing.DIFFERS


def test_a_claim_holds_or_differs():
    assert comparing.claim("x", "small", "1e-9", holds=True).verdict == comparing.HOLDS
    assert comparing.claim("x", "small", "3", holds=False).verdict == comparing.DIFFERS


@pytest.mark.parametrize(
    ("printed", "draws", "verdict"),
    [
        (8, [8] * 20, "as printed"),
        (8, [8, 9] * 10, "within sampling error"),
        (8, [9] * 19 + [8], "within sampling error"),
        (8, [9] * 100, "differs"),
        (8, [7] * 50 + [9] * 50, "within sampling error"),
    ],
)
def test_a_printed_draw_is_one_that_random_data_give(printed, draws, verdict):
    assert comparing.one_of_draws("rank", printed, draws).verdict == verdict


@pytest.mark.parametrize(
    ("printed", "computed", "verdict"),
    [
        ({5: 10}, [5] * 10, "as printed"),
        ({8: 9, 9: 1}, [8] * 8 + [9] * 2, "within sampling error"),
        ({8: 9, 9: 1}, [9] * 10, "differs"),
        ({"(3, 4, 5)": 9, "(3, 7, 5)": 1}, ["(3, 4, 5)"] * 10, "within sampling error"),
    ],
)
def test_frequencies_agree_within_sampling_error(printed, computed, verdict):
    found = comparing.frequencies("ranks", printed, computed)
    assert found.verdict == verdict


def test_frequencies_are_listed_from_the_commonest_on():
    found = comparing.frequencies("ranks", {8: 9, 9: 1}, [9, 8, 8])
    assert found.printed == "8 (90 %), 9 (10 %)"
    assert found.computed == "8 (66.7 %), 9 (33.3 %)"

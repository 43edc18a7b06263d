"""Progress of a program, in shares that its loops report."""

from __future__ import annotations

from importlib import import_module

import pytest

from bayespca.cli import reproduction

reproduction.experiments()
watching = import_module(f"{reproduction.PACKAGE}.watching")


def test_loops_within_loops_divide_what_the_outer_ones_have():
    told = []
    watch = watching.Watch(told.append)
    for outer in watch.each("ab", 0.5):
        for _ in watch.each(range(4 if outer == "a" else 1)):
            pass
    for _ in watch.each(range(2), 0.25):
        pass
    assert told == pytest.approx([*(4 * [0.0625]), 0.0, 0.25, 0.0, 0.125, 0.125])


def test_a_loop_that_is_left_is_done_with_its_round():
    told = []
    watch = watching.Watch(told.append)
    for _ in watch.each(range(2)):
        for inner in watch.each(range(10)):
            if inner == 3:
                break
    assert sum(told) == pytest.approx(1.0)


def test_nothing_to_do_and_nobody_who_watches():
    assert list(watching.Watch().each([])) == []
    assert list(watching.Watch().each("ab")) == ["a", "b"]

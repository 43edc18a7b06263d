"""Every public class and function has an example in its docstring, and the examples are right."""

from __future__ import annotations

import doctest
import inspect

import pytest

import bayespca

PUBLIC = [name for name in bayespca.__all__ if not inspect.ismodule(getattr(bayespca, name))]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_docstring(name):
    text = inspect.getdoc(getattr(bayespca, name))
    assert text
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert example.examples, "there is no example"
    assert doctest.DocTestRunner().run(example).failed == 0

"""Mutated text tables are read, or refused in one sentence: no other error, no endless work."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayespca.io import open_file

PIECES = [
    *(",", ";", "\t", "|", " ", "\n", "\r\n", "\r", '"', '""', "'", "#", "\x00", "\ufeff", "é"),
    *(
        "1",
        "-2.5",
        "1e308",
        "1e999",
        "nan",
        "inf",
        "NA",
        "?",
        "true",
        "id",
        "name",
        "a",
        "1,5",
        "_",
    ),
    *("1_000", "0x10", "٣", "--", "-", ".", "e", "\\", "\x1a", "🙂", "a" * 300),
]
VALID = "id,a,b,c\nx1,1.5,2,NA\nx2,3,4.25,5\nx3,6,7,8\n"


@st.composite
def mutated(draw):
    """A valid file with pieces inserted, characters removed and parts moved."""
    text = draw(st.sampled_from([VALID, VALID.replace(",", "\t"), "1,2\n3,4\n", ""]))
    for _ in range(draw(st.integers(0, 12))):
        where = draw(st.integers(0, len(text)))
        how = draw(st.integers(0, 3))
        if how == 0:
            text = text[:where] + draw(st.sampled_from(PIECES)) + text[where:]
        elif how == 1:
            text = text[:where] + text[where + draw(st.integers(1, 8)) :]
        elif how == 2:
            text = text[where:] + text[:where]
        else:
            text = text[:where] + text[: draw(st.integers(0, len(text)))] + text[where:]
    return text.encode(draw(st.sampled_from(["utf-8", "utf-16", "latin-1"])), errors="replace")


def read(path):
    """Read the file whole and in blocks; return the message if it is refused, else None."""
    try:
        file = open_file(path)
        table = file.read()
        assert table.values.ndim == 2
        assert table.values.dtype == np.float64
        assert table.ids is None or len(table.ids) == len(table.values)
        if "empty" not in table.aside.values():
            blocks = np.concatenate([rows.values for rows in file.blocks(1000)])
            np.testing.assert_array_equal(blocks, table.values)
    except ValueError as error:
        return str(error)
    return None


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=mutated(), ending=st.sampled_from([".csv", ".tsv", ".txt"]))
def test_text(content, ending, tmp_path):
    path = tmp_path / f"x{ending}"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = read(path)
    assert told is None or (path.name in told and "\n" not in told)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400), ending=st.sampled_from([".csv", ".tsv", ".txt"]))
def test_any_bytes(content, ending, tmp_path):
    path = tmp_path / f"x{ending}"
    path.write_bytes(content)
    told = read(path)
    assert told is None or path.name in told

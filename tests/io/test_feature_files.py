"""Files that describe users and items by id, with numbers, words and lists."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayespca.io.feature_files import FEW, read_features

GENRES = [("Action", "Comedy"), ("Comedy",), ("Drama", "Action"), ()]
# Contents of files that describe the same four users, with ids 1 to 4.
FILES = {
    "u.user": "1|24|M|a\n2|53|F|b\n3|23|M|a\n4|24|M|a\n",
    "users.dat": "1::24::M::a\n2::53::F::b\n3::23::M::a\n4::24::M::a\n",
    "users.csv": "age,userId,sex,work\n24,1,M,a\n53,2,F,b\n23,3,M,a\n24,4,M,a\n",
    "x.user": "user_id:token\tage:float\tsex:token\twork:token\n1\t24\tM\ta\n2\t53\tF\tb\n"
    "3\t23\tM\ta\n4\t24\tM\ta\n",
}


@pytest.mark.parametrize("name", FILES)
def test_formats_of_users(name, tmp_path):
    (tmp_path / name).write_text(FILES[name])
    found = read_features(tmp_path / name, "user")
    assert found.ids.tolist() == [1, 2, 3, 4]
    ages, sexes, works = found.columns.values()
    assert ages.tolist() == [24, 53, 23, 24]
    assert sexes == [("M",), ("F",), ("M",), ("M",)]
    assert works == [("a",), ("b",), ("a",), ("a",)]
    assert found.notes == ()


def items(name, path):
    text = {
        "movies.csv": 'movieId,title,genres\n7,"Heat: a, b",Action|Comedy\n8,B,Comedy\n'
        "9,C,Drama|Action\nten,B,\n",
        "movies.dat": "7::Heat: a, b::Action|Comedy\n8::B::Comedy\n9::C::Drama|Action\nten::B::\n",
        "x.item": "item_id:token\ttitle:token\tclass:token_seq\n7\tHeat: a, b\tAction Comedy\n"
        "8\tB\tComedy\n9\tC\tDrama Action\nten\tB\t\n",
    }
    if name in text:
        path.write_text(text[name])
        return
    lists = [list(words) for words in GENRES]
    titles = ["Heat: a, b", "B", "C", "B"]
    pd.DataFrame({"item": ["7", "8", "9", "ten"], "title": titles, "g": lists}).to_parquet(path)


@pytest.mark.parametrize("name", ["movies.csv", "movies.dat", "x.item", "i.parquet"])
def test_lists_of_words(name, tmp_path):
    items(name, tmp_path / name)
    found = read_features(tmp_path / name, "item")
    assert found.ids.tolist() == ["7", "8", "9", "ten"]
    titles, genres = found.columns.values()
    assert titles == [("Heat: a, b",), ("B",), ("C",), ("B",)]
    assert genres == GENRES


def test_what_is_left_out_and_filled_in_is_said(tmp_path):
    rows = [f"{i},name {i},{'' if i == 3 else i},,{i % 2}" for i in range(FEW)]
    (tmp_path / "i.csv").write_text("item,name,year,none,odd\n" + "\n".join(rows) + "\n")
    found = read_features(tmp_path / "i.csv", "item")
    assert list(found.columns) == ["year", "odd"]
    others = np.delete(np.arange(FEW), 3)
    assert found.columns["year"][3] == pytest.approx(others.mean())
    names, years, nothing = found.notes
    assert names == (
        f"i.csv: the column 'name' was left out: with {FEW} different words it names items rather "
        "than describing them."
    )
    assert "'year' has no number in 1 rows, which got the mean of the others" in years
    assert "'none' was left out: it is empty" in nothing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,age\n1,3\n1,4\n", "more than one row for the user '1'"),
        ("user,age\n1,3\n,4\n", "row 2 below the header, column 'user' has no id of a user"),
        ("user\n1\n2\n", "no column that describes a user"),
        ("user,age\n1,3\n2,4,5\n", "line 3 has 3 fields, but other lines have 2"),
        ("user,age\n", "holds no rows"),
        ("", r"is empty \(0 bytes\)"),
    ],
)
def test_what_is_wrong_gets_a_sentence(text, message, tmp_path):
    (tmp_path / "u.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_features(tmp_path / "u.csv", "user")


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_features(tmp_path / "no.csv", "user")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_features(tmp_path, "user")
    (tmp_path / "u.xyz").write_text("1,2\n")
    with pytest.raises(ValueError, match="is not known for features"):
        read_features(tmp_path / "u.xyz", "user")

"""Files of ratings: formats and columns are recognised, and errors name their line."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from bayespca.io import How, read_pairs, read_ratings

USERS, ITEMS, RATINGS = [196, 186, 196], [242, 302, 377], [3.0, 2.5, 1.0]


def lines(separator, *, header=None, end="\n"):
    rows = zip(USERS, ITEMS, RATINGS, strict=True)
    told = [separator.join((str(u), str(i), f"{r:g}", "881250949")) for u, i, r in rows]
    return end.join([*([header] if header else []), *told, ""])


FILES = {
    "u.data": lines("\t"),
    "ratings.dat": lines("::"),
    "windows.dat": lines("::", end="\r\n"),
    "ratings.csv": lines(",", header="userId,movieId,rating,timestamp"),
    "x.inter": lines("\t", header="user_id:token\titem_id:token\trating:float\ttimestamp:float"),
    "bom.csv": "\ufeff" + lines(",", header="user,item,rating,time"),
    "quoted.csv": lines(",", header='"user","item","rating","time"'),
    "semicolon.csv": lines(";", header="customer;product;score;when").replace(".", ","),
    "plain.csv": "\n".join(line.rpartition(",")[0] for line in lines(",").splitlines()),
    "other.tsv": lines("\t", header="Reviewer ID\tASIN\tOverall\tunixTime"),
}


@pytest.mark.parametrize("name", FILES)
def test_formats(name, tmp_path):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8", newline="")
    found = read_ratings(tmp_path / name)
    assert found.users.tolist() == USERS
    assert found.items.tolist() == ITEMS
    assert found.ratings.tolist() == RATINGS
    assert found.users.dtype == np.int64
    pairs = read_pairs(tmp_path / name)
    assert (pairs.users.tolist(), pairs.items.tolist(), pairs.ratings) == (USERS, ITEMS, None)


def test_compressed(tmp_path):
    path = tmp_path / "u.data.gz"
    path.write_bytes(gzip.compress(FILES["u.data"].encode()))
    assert read_ratings(path).ratings.tolist() == RATINGS


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_tables_with_types(ending, tmp_path):
    table = pd.DataFrame(
        {
            "time": [1, 2, 3],
            "movie": pd.Categorical(["x", "y", "x"]),
            "stars": np.float32([1, 2, 3]),
            "user": USERS,
        }
    )
    path = tmp_path / f"r.{ending}"
    getattr(table, f"to_{ending}")(path)
    found = read_ratings(path)
    assert found.names == ("user", "movie", "stars")
    assert found.users.tolist() == USERS
    assert found.items.tolist() == ["x", "y", "x"]
    assert found.ratings.dtype == np.float64
    with pytest.raises(ValueError, match="of ratings, 'movie', holds text, not numbers"):
        read_ratings(path, columns=["user", "time", "movie"])
    with pytest.raises(ValueError, match="do not apply to"):
        read_ratings(path, How(delimiter=";"))
    table.loc[1, "stars"] = np.nan
    getattr(table, f"to_{ending}")(path)
    with pytest.raises(ValueError, match=r"row 1 .* column 'stars' has no rating"):
        read_ratings(path)


def written(tmp_path, text, name="r.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_ids_are_numbers_where_all_are(tmp_path):
    many = "".join(f"{i},{i},3\n" for i in range(1, 2000))
    path = written(tmp_path, f"user,item,rating\n{many}u5,7,3\n")
    found = read_ratings(path)
    assert found.users[[0, -1]].tolist() == ["1", "u5"]
    assert found.items[[0, -1]].tolist() == [1, 7]
    path = written(tmp_path, f"user,item,rating\n{many}5,i7,3\n")
    found = read_ratings(path)
    assert found.users[[0, -1]].tolist() == [1, 5]
    assert found.items[[0, -1]].tolist() == ["1", "i7"]
    zeros = read_ratings(written(tmp_path, "user,item,rating\n007,1,2\n7,1,3\n"))
    assert zeros.users.tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("user_id,isbn,book_rating", (0, 1, 2)),
        ("rating,item,user", (2, 1, 0)),
        ("when,user,age,movie,stars", (1, 3, 4)),
        ("user_rating,user_id,movie_id", (1, 2, 0)),
        ("alpha,beta,gamma", (0, 1, 2)),
        ("how,item,user", (2, 1, 0)),
    ],
)
def test_columns_are_found_by_name(header, columns, tmp_path):
    n = header.count(",") + 1
    row = ",".join(str(10 + j) for j in range(n))
    found = read_ratings(written(tmp_path, f"{header}\n{row}\n"))
    assert (found.users[0], found.items[0], found.ratings[0]) == tuple(10 + j for j in columns)
    assert found.names == tuple(header.split(",")[j] for j in columns)


def test_columns_may_be_said(tmp_path):
    path = written(tmp_path, "a,b,c,d,e\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"'a', 'b', 'c', 'd', 'e', .* is not clear: name them"):
        read_ratings(path)
    for columns in (["e", "a", "c"], ["4", "0", "2"]):
        found = read_ratings(path, columns=columns)
        assert (found.users[0], found.items[0], found.ratings[0]) == (5, 1, 3.0)
    with pytest.raises(ValueError, match="has no column 'z'"):
        read_ratings(path, columns=["a", "b", "z"])
    with pytest.raises(ValueError, match="the columns of user and item and rating must be named"):
        read_ratings(path, columns=["a", "b"])
    double = written(tmp_path, "9::1::2::3\n", "r.dat")
    found = read_ratings(double, columns=["1", "3", "0"])
    assert (found.users[0], found.items[0], found.ratings[0]) == (1, 3, 9.0)


def test_pairs(tmp_path):
    found = read_pairs(written(tmp_path, "1,x\n2,y\n"))
    assert (found.users.tolist(), found.items.tolist()) == ([1, 2], ["x", "y"])
    found = read_pairs(written(tmp_path, "item,user\n1,x\n"))
    assert (found.users.tolist(), found.items.tolist()) == (["x"], [1])


MISTAKES = {
    "a.csv": ("user,item,rating\n1,2,3\n1,4,good\n", r"a.csv, line 3, column 'rating': 'good'"),
    "b.dat": ("1::2::3::4\n1::3::::4\n", r"b.dat, line 2, column '2' has no rating"),
    "c.csv": ("user,item,rating\n1,2,3\n,4,5\n", r"c.csv, line 3, column 'user' has no user"),
    "d.csv": ("user,item,rating\nu,2,3\n,4,5\n", r"d.csv, line 3, column 'user' has no user"),
    "e.csv": ("user,item,rating\n1,2,3\n1,4\n", r"e.csv, line 3 has 2 fields"),
    "f.csv": ("user,item,rating\n1,2,3\n1,2,NA\n", r"f.csv, line 3, column 'rating' has no rating"),
    "g.csv": ("user,item,rating\n", "g.csv holds no rows"),
    "h.csv": ("", r"h.csv is empty \(0 bytes\)"),
    "i.csv": ("user,item\n1,2\n", r"i.csv has the columns 'user', 'item'"),
    "l.csv": ("user,a,b\n1,2,3\n", r"'user', 'a', 'b', .* is not clear"),
    "j.doc": ("1,2,3\n", "ending '.doc', which is not known for ratings"),
    "k.data": ("1\t2\t3\t4\n5\t6\t7\n", "k.data, line 2 has 3 fields"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name, tmp_path):
    text, message = MISTAKES[name]
    with pytest.raises(ValueError, match=message):
        read_ratings(written(tmp_path, text, name))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.csv does not exist"):
        read_ratings(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_ratings(tmp_path)

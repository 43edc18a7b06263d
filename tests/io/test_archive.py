"""Archives are exact, reproducible to the byte, readable by other programs, refused if damaged."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayespca.io import archive
from bayespca.io.archive import ModelFileError

META = {"title": "déjà vu \ud800", "numbers": [0, -1, 2**53, 0.1, -0.0, 5e-324], "none": None}
ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "b.c": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    "empty": np.empty((0, 5), np.float32),
    "point": np.array(True),
    "big": np.arange(4, dtype=">f4"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


def exactly_equal(a, b):
    return (
        a.dtype.str == b.dtype.str
        and a.shape == b.shape
        and a.flags.c_contiguous == b.flags.c_contiguous
        and a.tobytes(order="A") == b.tobytes(order="A")
    )


def file_of(members, path, **options):
    """Write a zip file with these members, given as {name: bytes} or as pairs."""
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(path, "w", **options) as zipped:
        for name, contents in pairs:
            zipped.writestr(name, contents)
    return path


def meta(text='{"format": "bayespca-model", "version": 1}'):
    return {"bayespca.json": text}


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        archive.read(path)
    assert str(caught.value).startswith(f"{path} ")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


# --- round trips -------------------------------------------------------------------------------


def test_exact(path):
    archive.write(path, META, ARRAYS)
    found, arrays = archive.read(path)
    assert repr(found) == repr(META)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert exactly_equal(array, ARRAYS[name])
        assert array.flags.writeable
        assert array.flags.aligned


@given(
    hnp.arrays(
        hnp.boolean_dtypes()
        | hnp.integer_dtypes(endianness="?")
        | hnp.unsigned_integer_dtypes(endianness="?")
        | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.booleans(),
)
def test_any_array_of_numbers(tmp_path_factory, array, fortran):
    path = tmp_path_factory.getbasetemp() / "any"
    array = np.asarray(array, order="F" if fortran else "C")
    archive.write(path, {}, {"x": array})
    assert exactly_equal(archive.read(path)[1]["x"], array)


def test_the_same_contents_give_the_same_bytes(path):
    archive.write(path, META, ARRAYS)
    first = path.read_bytes()
    archive.write(path, META, dict(reversed(ARRAYS.items())))
    assert path.read_bytes() == first


def test_others_can_read_it(path):
    archive.write(path, META, ARRAYS)
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None
        assert zipped.namelist()[0] == "bayespca.json"
        tree = json.loads(zipped.read("bayespca.json"))
        assert tree == {"format": "bayespca-model", "version": 1, **META}
    with np.load(path) as arrays:
        for name, array in ARRAYS.items():
            assert exactly_equal(arrays[f"arrays/{name}"], array)


def test_others_can_write_it(path):
    headers = {f"arrays/{name}.npy": npy(array) for name, array in ARRAYS.items()}
    found, arrays = archive.read(file_of(meta() | headers, path))
    assert found == {}
    assert all(exactly_equal(arrays[name], array) for name, array in ARRAYS.items())


def test_more_than_fits_is_not_written(path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_JSON", 100)
    with pytest.raises(ValueError, match="too many for a model file"):
        archive.write(path, {"x": "x" * 100}, {})
    assert not path.exists()


# --- files that are not models -----------------------------------------------------------------


def test_missing_folder_and_unreadable(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^cannot load .*no: there is no such file; check"):
        archive.read(tmp_path / "no")
    with pytest.raises(IsADirectoryError, match="it is a folder; give the path"):
        archive.read(tmp_path)
    with pytest.raises(TypeError):
        archive.read(0)


@pytest.mark.skipif(os.name != "posix", reason="pipes as on Unix")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "a device or a pipe")


@pytest.mark.parametrize(
    ("contents", "match"),
    [
        (b"", "is empty, and not a bayespca model file"),
        (b"P", "is not a bayespca model file"),
        (b"\x80\x04\x95 a pickle", "is not a bayespca model file"),
        (b"PK\x03\x04" + bytes(100), "is damaged: its end is missing"),
        (b"PK\x03\x04", "is damaged: its end is missing"),
    ],
)
def test_not_a_model_file(path, contents, match):
    path.write_bytes(contents)
    refused(path, match)


def test_other_zips(path):
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    refused(path.with_suffix(".npz"), "is not a bayespca model file: there is no bayespca.json")
    refused(file_of({"bayespca.json": "{}"}, path), "does not say that it is one")
    refused(file_of({"bayespca.json": '{"format": "x"}'}, path), "does not say that it is one")
    refused(file_of({"bayespca.json": "[]"}, path), "does not say that it is one")


def test_a_newer_version_is_told_apart(path):
    text = '{"format": "bayespca-model", "version": 2, "news": true}'
    refused(
        file_of(meta(text) | {"news/x": "y"}, path),
        r"was written by a newer bayespca \(format 2; this version reads 1\): upgrade",
    )


@pytest.mark.parametrize("version", ["0", "-1", "1.0", "true", '"1"', "null"])
def test_a_version_that_is_none(path, version):
    text = f'{{"format": "bayespca-model", "version": {version}}}'
    refused(file_of(meta(text), path), "does not say the version")


# --- zips that lie -----------------------------------------------------------------------------


def test_added_at_either_end(path):
    archive.write(path, META, ARRAYS)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0")
    refused(path, "something was added")
    path.write_bytes(b"#!/bin/sh\n" + whole)
    refused(path, "is not a bayespca model file")


def test_every_truncation_is_seen(path):
    archive.write(path, META, {"a": ARRAYS["a"]})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            archive.read(path)


def test_a_changed_number_is_seen(path):
    archive.write(path, META, ARRAYS)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<d", 4.0), struct.pack("<d", 8.0)))
    refused(path, "Bad CRC-32")


def test_compressed_members_are_refused(path):
    bomb = {"arrays/x.npy": bytes(10**7)}
    refused(file_of(meta() | bomb, path, compression=zipfile.ZIP_DEFLATED), "is compressed")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_unknown_and_repeated_members(path):
    for name in ("../x.npy", "arrays/../x.npy", "arrays/x.pkl", "/arrays/x.npy", "x", "arrays/"):
        refused(file_of(meta() | {name: npy(np.ones(3))}, path), "does not belong there")
    pairs = [*meta().items(), ("arrays/x.npy", npy(np.ones(3))), ("arrays/x.npy", npy(np.ones(3)))]
    refused(file_of(pairs, path), "two members of the same name")


def test_members_that_overlap_are_refused(path):
    """A thousand entries of the directory point to the same large member."""
    file_of(meta() | {"arrays/x.npy": npy(np.zeros(10**5))}, path)
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("arrays/y.npy", b"")
        x = zipped.getinfo("arrays/x.npy")
        for i in range(1000):
            info = zipfile.ZipInfo(f"arrays/x{i}.npy")
            info.header_offset, info.CRC = x.header_offset, x.CRC
            info.file_size = info.compress_size = x.file_size
            zipped.filelist.append(info)
    refused(path, "larger than the file is")


def test_encrypted_members_are_refused(path):
    archive.write(path, META, ARRAYS)
    whole = bytearray(path.read_bytes())
    whole[whole.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(whole)
    refused(path, "encrypted")


# --- JSON that lies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"a": NaN}', "holds NaN"),
        ('{"a": -Infinity}', "holds -Infinity"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": 9007199254740993}', "not every reader"),
        ('{"a": ' + "9" * 10**6 + "}", "not every reader"),
        ('{"a": 1, "a": 2}', "a key twice"),
        ("[" * 65 + "]" * 65, "nested more than 64 deep"),
        ("[" * 10**6, "nested more than 64 deep"),
        ('{"a":' * 10**5, "nested more than 64 deep"),
        ("{'a': 1}", "not valid JSON"),
        ("", "not valid JSON"),
        ("{} {}", "not valid JSON"),
        ('"\\ud8', "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
    ],
)
def test_json_is_strict(path, text, match):
    refused(file_of(meta(text), path), match)


def test_brackets_in_strings_are_no_depth(path):
    text = json.dumps({"format": "bayespca-model", "version": 1, "x": '\\"[{' * 100})
    assert archive.read(file_of(meta(text), path))[0] == {"x": '\\"[{' * 100}


def test_large_json_is_refused(path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_JSON", 20)
    refused(file_of(meta(), path), "larger than 20 bytes")


# --- arrays that lie ---------------------------------------------------------------------------


class Alarm:
    """An object whose pickle runs code when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("code was run",))


def header(text, data=b"", version=b"\x01\x00", length=None):
    encoded = text.encode()
    size = struct.pack("<H", len(encoded) if length is None else length)
    return b"\x93NUMPY" + version + size + encoded + data


def described(descr="'<f8'", fortran="False", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("contents", "match"),
    [
        (b"", "does not begin as an array"),
        (b"\x93NUMPY", "does not begin as an array"),
        (npy(np.array([Alarm()], dtype=object)), "does not begin as an array"),
        (npy(np.array(["text"])), "does not begin as an array"),
        (npy(np.array([1j])), "does not begin as an array"),
        (npy(np.zeros(2, "datetime64[s]")), "does not begin as an array"),
        (npy(np.zeros(2, "f8,i4")), "does not begin as an array"),
        (header(described(), bytes(16), version=b"\x02\x00"), "does not begin as an array"),
        (header(described(), bytes(16), length=65535), "does not begin as an array"),
        (header(described(shape="(-2,)"), bytes(16)), "does not begin as an array"),
        (header(described(shape="__import__('os')"), bytes(16)), "does not begin as an array"),
        (header(described(shape="(" * 5000), bytes(16)), "does not begin as an array"),
        (header(described(shape="(1000000000000000,)"), bytes(16)), "not as long as its shape"),
        (header(described(shape="(3,)"), bytes(16)), "not as long as its shape"),
        (header(described(), bytes(17)), "not as long as its shape"),
        (header(described(shape="(2, " + "1, " * 40 + ")"), bytes(16)), "42 dimensions|41 dim"),
        (header(described(shape="(0, 999999999999999999, 999999999)")), "cannot be read"),
        (header(described("'<f1'"), bytes(2)), "unknown type"),
        (header(described("'|f8'"), bytes(16)), "unknown type"),
        (header(described("'<b8'"), bytes(16)), "unknown type"),
        (header(described("'|b1'"), b"\x00\x02"), "truth values other than"),
    ],
)
def test_arrays_are_strict(path, contents, match):
    refused(file_of(meta() | {"arrays/x.npy": contents}, path), match)


def test_a_claim_of_much_memory_takes_none(path):
    claim = header(described(shape="(1000000000000,)"), bytes(16))
    file_of(meta() | {"arrays/x.npy": claim}, path)
    tracemalloc.start()
    try:
        refused(path, "not as long as its shape")
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_the_way_of_large_files(path, monkeypatch):
    """Zip64 keeps the sizes of members over 4 GB elsewhere; here it starts at 100 bytes."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    archive.write(path, META, ARRAYS)
    monkeypatch.undo()
    assert b"PK\x06\x06" in path.read_bytes()
    found, arrays = archive.read(path)
    assert repr(found) == repr(META)
    assert all(exactly_equal(arrays[name], array) for name, array in ARRAYS.items())

"""Archives: one file that holds a JSON tree and arrays, and no code; docs/model-file.md.

An uncompressed zip with a member `bayespca.json` and one `arrays/<name>.npy` per array, so that
`unzip` and NumPy can open it. The same contents give the same bytes.

Reading trusts nothing. It takes no more memory than the size of the file (apart from the overhead
of JSON objects), evaluates nothing, and raises a `ModelFileError` for anything that is wrong.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .writing import replacing

FORMAT = "bayespca-model"
VERSION = 1

META = "bayespca.json"
MEMBER = re.compile(r"arrays/([A-Za-z0-9_][A-Za-z0-9_.-]{0,199})\.npy")
KINDS = "biuf"

# The earliest date of the zip format: the real one would make every file different.
DATE = (1980, 1, 1, 0, 0, 0)
FIRST_BYTES, LAST_RECORD = b"PK\x03\x04", b"PK\x05\x06"
LAST_RECORD_SIZE = 22
# Flags that other zip writers may set: sizes after the data, and names in UTF-8.
FLAGS = 0x0008 | 0x0800

# Errors that `zipfile` and `struct` raise for invalid numbers.
STUMBLES = (
    *(zipfile.BadZipFile, struct.error, ArithmeticError, EOFError, LookupError),
    *(RuntimeError, ValueError),
)

NPY = b"\x93NUMPY\x01\x00"
NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': (False|True), "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n"
)
MOST_DIMENSIONS = 32
CHUNK = 1 << 20

MOST_JSON = 64 << 20
DEEPEST_JSON = 64
# Every JSON reader holds whole numbers up to this one exactly.
LARGEST_INT = 2**53
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])')

Json = Any
AnyArray = NDArray[Any]


class ModelFileError(ValueError):
    """A file cannot be loaded; the message says what is wrong with it and what to do."""


class FlawError(Exception):
    """A flaw in the contents of a file, as part of a sentence; see `naming`."""


class _RefusalError(Exception):
    """Reason to refuse a file that may be intact, as the end of a sentence about the file."""


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn flaws into errors that name the file."""
    try:
        yield
    except FlawError as flaw:
        # Quotations from a file can be long.
        what = " ".join(str(flaw)[:300].split())
        raise ModelFileError(
            f"{os.fspath(path)} is damaged: {what}; save the model again."
        ) from None
    except _RefusalError as refusal:
        raise ModelFileError(f"{os.fspath(path)} {refusal}") from None


# --- writing -----------------------------------------------------------------------------------


def write(
    path: str | os.PathLike[str], meta: Mapping[str, Json], arrays: Mapping[str, AnyArray]
) -> None:
    """Write a JSON tree and arrays of numbers, whole or not at all."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **meta}, indent=1, allow_nan=False)
    encoded = text.encode("ascii")
    if len(encoded) > MOST_JSON:
        raise ValueError(
            f"{len(encoded)} bytes of names and options are too many for a model file, which can "
            f"hold {MOST_JSON}."
        )
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(_member(META, len(encoded)), "w") as member:
            member.write(encoded)
        for name in sorted(arrays):
            _write_array(archive, name, arrays[name])


def _write_array(archive: zipfile.ZipFile, name: str, array: AnyArray) -> None:
    order: Any = "C" if array.flags.c_contiguous else "F"
    header = _npy_header(array, order)
    flat = array.reshape(-1, order=order)
    with archive.open(_member(f"arrays/{name}.npy", len(header) + array.nbytes), "w") as member:
        member.write(header)
        member.write(_bytes(flat))


def _bytes(flat: Any) -> memoryview:
    """The memory of a contiguous vector."""
    return memoryview(flat.view(np.uint8))


def _member(name: str, size: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, DATE)
    # The same on every system: from Unix, readable by all.
    info.create_system, info.external_attr = 3, 0o644 << 16
    info.file_size = size
    return info


def _npy_header(array: AnyArray, order: str) -> bytes:
    """The header of npy version 1.0, padded so that the numbers begin at a multiple of 64."""
    shape = tuple(int(size) for size in array.shape)
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': {order == 'F'}, 'shape': {shape}, }}"
    padding = -(len(NPY) + 2 + len(text) + 1) % 64
    header = text.encode("ascii") + b" " * padding + b"\n"
    return NPY + struct.pack("<H", len(header)) + header


# --- reading -----------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Json], dict[str, AnyArray]]:
    """The JSON tree, without `format` and `version`, and the arrays."""
    with _opened(path) as file, naming(path):
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise _RefusalError("is empty, and not a bayespca model file.")
        if file.read(len(FIRST_BYTES)) != FIRST_BYTES:
            raise _RefusalError("is not a bayespca model file.")
        file.seek(max(size - LAST_RECORD_SIZE, 0))
        last = file.read()
        if not last.startswith(LAST_RECORD) or last[-2:] != b"\0\0":
            raise FlawError("its end is missing, or something was added to it")
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive, os.fstat(file.fileno()).st_size)
        except STUMBLES as error:
            raise FlawError(f"its contents cannot be read ({str(error)[:100]})") from error
        except OSError as error:
            # EINVAL is an impossible position in the file; other errors come from the disk.
            if error.errno != errno.EINVAL:
                raise
            raise FlawError("its table of contents points outside of it") from error


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like a model file; reading it may still fail."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == FIRST_BYTES and META.encode() in file.read(200)
    except OSError:
        return False


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise ModelFileError(f"{name} is a device or a pipe, not a bayespca model file.")
        file = open(name, "rb")  # noqa: SIM115 (errors of opening and of reading differ)
    except OSError as error:
        clearer = type(error)(f"cannot load {name}: {_why(error)}.")
        clearer.errno = error.errno
        raise clearer from error
    with file:
        yield file


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; check the path"
    if isinstance(error, IsADirectoryError):
        return "it is a folder; give the path of a model file"
    if isinstance(error, PermissionError):
        return "there is no permission to read it"
    return error.strerror or str(error)


def _read(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, Json], dict[str, AnyArray]]:
    members = {info.filename: info for info in archive.infolist()}
    if META not in members:
        raise _RefusalError(f"is not a bayespca model file: there is no {META} in it.")
    _check_sizes(archive.infolist(), size)
    meta = _read_meta(archive, members.pop(META))
    arrays = {}
    for name, info in members.items():
        known = MEMBER.fullmatch(name)
        if not known:
            raise FlawError(f"it holds {name[:60]!r}, which does not belong there")
        arrays[known[1]] = _read_array(archive, info)
    return meta, arrays


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise for compressed or repeated members, and for members larger than the file."""
    if len({info.filename for info in members}) != len(members):
        raise FlawError("it holds two members of the same name")
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise FlawError(f"{info.filename[:60]!r} is compressed, which model files are not")
        if info.flag_bits & ~FLAGS:
            raise FlawError(f"{info.filename[:60]!r} is encrypted or of an unknown kind")
    if sum(info.file_size for info in members) > size:
        raise FlawError("its members claim to be larger than the file is")


def _read_meta(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Json]:
    if info.file_size > MOST_JSON:
        raise FlawError(f"{META} is larger than {MOST_JSON} bytes")
    meta = parse_json(archive.read(info))
    if not isinstance(meta, dict) or meta.pop("format", None) != FORMAT:
        raise _RefusalError(f"is not a bayespca model file: {META} does not say that it is one.")
    version = meta.pop("version", None)
    if type(version) is not int or version < 1:
        raise FlawError("it does not say the version of its format")
    if version > VERSION:
        raise _RefusalError(
            f"was written by a newer bayespca (format {version}; this version reads {VERSION}): "
            "upgrade bayespca to load it."
        )
    return meta


def parse_json(encoded: bytes) -> Json:
    """Strict JSON: no NaN, no rounded or infinite numbers, no key twice, not too deep."""
    try:
        text = encoded.decode("utf-8")
    except UnicodeDecodeError:
        raise FlawError(f"{META} is not UTF-8") from None
    depth = 0
    for bracket in BRACKETS.finditer(text):
        depth += (bracket[1] is not None) - (bracket[2] is not None)
        if depth > DEEPEST_JSON:
            raise FlawError(f"{META} is nested more than {DEEPEST_JSON} deep")
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_int,
            parse_float=_float,
        )
    except (ValueError, RecursionError) as error:
        raise FlawError(f"{META} is not valid JSON ({error})") from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FlawError(f"{META} has a key twice in the same place")
    return found


def _constant(word: str) -> Json:
    raise FlawError(f"{META} holds {word}, which JSON does not know")


def _int(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > LARGEST_INT:
        raise FlawError(
            f"{META} holds the integer {digits[:20]}, which not every reader can represent"
        )
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FlawError(f"{META} holds the number {digits[:20]}, which is out of range")
    return number


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> AnyArray:
    with archive.open(info) as member:
        array, order = _empty(member, info)
        flat = _bytes(array.reshape(-1, order=order))
        done = 0
        while done < len(flat):
            part = member.read(min(CHUNK, len(flat) - done))
            if not part:
                raise FlawError(f"{info.filename} is cut short")
            flat[done : done + len(part)] = part
            done += len(part)
        # `zipfile` verifies the checksum at the end of a member.
        member.read(1)
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise FlawError(f"{info.filename} holds truth values other than true and false")
    return array


def _empty(member: IO[bytes], info: zipfile.ZipInfo) -> tuple[AnyArray, Any]:
    """An empty array as the header of a member describes it, after a check of its size."""
    start = member.read(len(NPY) + 2)
    length = int.from_bytes(start[len(NPY) :], "little")
    found = NPY_HEADER.fullmatch(member.read(length)) if start.startswith(NPY) else None
    if not found:
        raise FlawError(f"{info.filename} does not begin as an array of numbers does")
    kind = found[1].decode("ascii")
    try:
        dtype = np.dtype(kind)
    except TypeError:
        dtype = None
    if dtype is None or dtype.str != kind:
        raise FlawError(f"{info.filename} is of the unknown type {kind!r}")
    shape = tuple(int(size) for size in found[3].split(b",") if size.strip())
    if len(shape) > MOST_DIMENSIONS:
        raise FlawError(f"{info.filename} has {len(shape)} dimensions")
    if len(start) + length + math.prod(shape) * dtype.itemsize != info.file_size:
        raise FlawError(f"{info.filename} is not as long as its shape {shape} asks for")
    order: Any = "F" if found[2] == b"True" else "C"
    return np.empty(shape, dtype, order=order), order

"""Values as a JSON tree with references to arrays, and back; docs/model-file.md lists the tags.

A value that JSON cannot express is an object with one key that begins with "$". Both directions
know only the values below: nothing in a tree names code to run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from .archive import DEEPEST_JSON, KINDS, LARGEST_INT, FlawError
from .records import DType

Json = Any

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
# Deepest nesting of a value: tags and the tree around it take further levels in the file.
DEEPEST_VALUE = DEEPEST_JSON // 4
MOST_DIGITS = 1000

SCALARS: dict[str, type[np.generic]] = {
    np.dtype(kind).name: kind
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64),
    )
}
FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (
        *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937),
        *(np.random.Philox, np.random.SFC64),
    )
}


@dataclass(frozen=True)
class Kind:
    """A kind of values: words for a sentence, and a test."""

    words: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Record:
    """A frozen dataclass that a tree may contain: the kinds of its fields, and a check.

    `agree` gets a record whose fields are of the right kinds, and raises `FlawError` or ValueError
    if they contradict each other.
    """

    cls: type
    kinds: Mapping[str, Kind]
    agree: Callable[[Any], None] = lambda record: None


def check_kinds(owner: str, values: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Raise unless every value is of its kind."""
    for name, kind in kinds.items():
        if name in values and not kind.fits(values[name]):
            raise FlawError(f"{name} of {owner} is not {kind.words}")


# --- values to a tree --------------------------------------------------------------------------


class Encoder:
    """Turns values into trees, and collects their arrays, converted by `to_numpy`."""

    def __init__(
        self, records: Mapping[str, Record], to_numpy: Callable[[Any], Any] = np.asarray
    ) -> None:
        self._to_numpy = to_numpy
        self.arrays: dict[str, np.ndarray] = {}
        self.records = records
        self._records = {record.cls: name for name, record in records.items()}
        # The reference keeps each array alive, so that its id is not reused.
        self._names: dict[int, tuple[Any, str]] = {}

    def encode(self, value: Any, where: str, depth: int = 0) -> Json:
        """The tree of a value; `where` is its path, for names and messages."""
        if depth > DEEPEST_VALUE:
            raise TypeError(f"cannot save {where}: it is nested more than {DEEPEST_VALUE} deep.")
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, np.generic):
            return _scalar(value, where)
        if type(value) in (int, float):
            return _number(value, where)
        if type(value) in (list, tuple):
            items = [self.encode(v, f"{where}.{i}", depth + 1) for i, v in enumerate(value)]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is dict:
            return self._dict(value, where, depth)
        if type(value) in self._records:
            return self._record(value, where, depth)
        if isinstance(value, np.dtype) and _is_numeric(value):
            return {"$dtype": value.str}
        if type(value) in (np.random.Generator, np.random.RandomState):
            return self._generator(value, where, depth)
        if is_array_api_obj(value):
            return self._array(value, where)
        raise _no_place(value, where)

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Json:
        if any(type(key) not in (str, int) for key in value):
            raise TypeError(f"cannot save {where}: keys must be strings or whole numbers.")
        return {
            "$dict": [
                [self.encode(key, where), self.encode(item, f"{where}.{key}", depth + 1)]
                for key, item in value.items()
            ]
        }

    def _record(self, value: Any, where: str, depth: int) -> Json:
        names = [field.name for field in fields(value)]
        found = {n: self.encode(getattr(value, n), f"{where}.{n}", depth + 1) for n in names}
        return {"$record": {"class": self._records[type(value)], "fields": found}}

    def _generator(self, value: Any, where: str, depth: int) -> Json:
        """The tree of a random generator: its state, and its seed for spawning children."""
        if isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=False)
            return {"$random_state": self.encode(state, f"{where}.state", depth + 1)}
        bits = value.bit_generator
        seed = getattr(bits, "seed_seq", None)
        if type(bits) is not BIT_GENERATORS.get(type(bits).__name__):
            raise _no_place(value, where)
        if type(seed) is not np.random.SeedSequence or seed.pool_size != 4:
            raise TypeError(f"cannot save {where}: its seed is not an ordinary SeedSequence.")
        sown = {"entropy": seed.entropy, "spawn_key": tuple(seed.spawn_key)}
        sown["n_children_spawned"] = seed.n_children_spawned
        return {
            "$generator": {
                "state": self.encode(bits.state, f"{where}.state", depth + 1),
                "seed": self.encode(sown, f"{where}.seed", depth + 1),
            }
        }

    def _array(self, value: Any, where: str) -> Json:
        if is_numpy_array(value) and type(value) not in (np.ndarray, np.memmap):
            raise _no_place(value, where)
        array = self._to_numpy(value)
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, str) for v in array):
            return {"$strings": [str(v) for v in array]}
        if not _is_numeric(array.dtype):
            raise TypeError(
                f"cannot save {where}: arrays of {array.dtype} have no place in a file."
            )
        if id(value) not in self._names:
            self._names[id(value)] = (value, self._store(array, where))
        name = self._names[id(value)][1]
        read_only = is_numpy_array(value) and not value.flags.writeable
        return {"$array": {"name": name, "read_only": read_only}}

    def _store(self, array: np.ndarray, where: str) -> str:
        name = where if NAME.fullmatch(where) and where not in self.arrays else ""
        name = name or f"array.{len(self.arrays)}"
        # The memory layout decides the order in which products are summed, so it is kept.
        contiguous = array.flags.c_contiguous or array.flags.f_contiguous
        self.arrays[name] = array if contiguous else array.copy(order="K")
        return name


def _is_numeric(dtype: DType) -> bool:
    """Whether the type is numeric and exists on every machine."""
    return dtype.kind in KINDS and dtype.itemsize <= 8


def _number(value: float, where: str) -> Json:
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if abs(value) <= LARGEST_INT:
        return value
    if abs(value) >= 10**MOST_DIGITS:
        raise TypeError(f"cannot save {where}: it has more than {MOST_DIGITS} digits.")
    return {"$int": str(value)}


def _scalar(value: np.generic, where: str) -> Json:
    if isinstance(value, np.str_):
        return {"$scalar": {"dtype": "str", "value": str(value)}}
    if value.dtype.name not in SCALARS:
        raise _no_place(value, where)
    item = value.item()
    tree = item if type(item) is bool else _number(item, where)
    return {"$scalar": {"dtype": value.dtype.name, "value": tree}}


def _no_place(value: Any, where: str) -> TypeError:
    return TypeError(
        f"cannot save {where}: a {type(value).__module__}.{type(value).__qualname__} has no place "
        "in a model file, which holds numbers, strings, arrays of numbers and random generators."
    )


# --- a tree to values --------------------------------------------------------------------------


class Decoder:
    """Turns trees back into values; raises `FlawError` for anything that does not fit."""

    def __init__(self, records: Mapping[str, Record], arrays: Mapping[str, np.ndarray]) -> None:
        self.used: set[str] = set()
        self._records = records
        self._arrays = arrays
        self._tags: dict[str, Callable[[Json], Any]] = {
            "$int": _whole,
            "$float": _special_float,
            "$tuple": lambda payload: tuple(self._items(payload)),
            "$dict": self._dict,
            "$scalar": self._scalar,
            "$dtype": _numeric_dtype,
            "$array": self._array,
            "$strings": _strings,
            "$record": self._record,
            "$generator": self._generator,
            "$random_state": self._random_state,
        }

    def decode(self, tree: Json) -> Any:
        """The value of a tree."""
        if isinstance(tree, list):
            return self._items(tree)
        if not isinstance(tree, dict):
            return tree
        if len(tree) == 1:
            ((tag, payload),) = tree.items()
            if tag in self._tags:
                return self._tags[tag](payload)
        raise FlawError(
            f"it holds an object of unknown meaning, with the keys {str(list(tree))[:80]}"
        )

    def _items(self, payload: Json) -> list[Any]:
        if not isinstance(payload, list):
            raise FlawError("it holds something else where a list should be")
        return [self.decode(item) for item in payload]

    def _dict(self, payload: Json) -> dict[Any, Any]:
        pairs = [tuple(item) for item in self._items(payload) if isinstance(item, list)]
        if len(pairs) != len(payload) or any(len(pair) != 2 for pair in pairs):
            raise FlawError("it holds something else where pairs of keys and values should be")
        if any(type(key) not in (str, int) for key, _ in pairs):
            raise FlawError("it holds a key that is neither a string nor a whole number")
        found = dict(pairs)
        if len(found) != len(pairs):
            raise FlawError("it holds a key twice in the same place")
        return found

    def _scalar(self, payload: Json) -> Any:
        name, tree = members(payload, "dtype", "value")
        value = self.decode(tree)
        if name == "str" and type(value) is str:
            return np.str_(value)
        kind = SCALARS.get(name) if isinstance(name, str) else None
        if kind is None or type(value) is not type(kind(0).item()):
            raise FlawError(f"it holds a number of the unknown type {str(name)[:20]!r}")
        try:
            with np.errstate(all="ignore"):
                scalar = kind(value)
        except OverflowError:
            raise FlawError(f"it holds {value}, which is out of the range of {name}") from None
        if scalar.item() != value and not np.isnan(scalar):
            raise FlawError(f"it holds {value}, which {name} cannot hold")
        return scalar

    def _array(self, payload: Json) -> np.ndarray:
        name, read_only = members(payload, "name", "read_only")
        if not isinstance(name, str) or name not in self._arrays or type(read_only) is not bool:
            raise FlawError(f"there is no array {str(name)[:60]!r} in it")
        self.used.add(name)
        array = self._arrays[name]
        if read_only:
            array.flags.writeable = False
        return array

    def _record(self, payload: Json) -> Any:
        name, trees = members(payload, "class", "fields")
        layout = self._records.get(name) if isinstance(name, str) else None
        if layout is None:
            raise FlawError(f"it holds a record of the unknown class {str(name)[:60]!r}")
        values = [self.decode(tree) for tree in members(trees, *layout.kinds)]
        found = dict(zip(layout.kinds, values, strict=True))
        check_kinds(f"a {name}", found, layout.kinds)
        record: Any = object.__new__(layout.cls)
        for field, value in found.items():
            object.__setattr__(record, field, value)
        try:
            layout.agree(record)
        except ValueError as error:
            raise FlawError(
                f"it holds a {name} that does not agree with itself ({error})"
            ) from None
        return record

    def _generator(self, payload: Json) -> np.random.Generator:
        state, seed = (self.decode(tree) for tree in members(payload, "state", "seed"))
        kind = _bit_generator(state)
        entropy, spawn_key, spawned = members(seed, "entropy", "spawn_key", "n_children_spawned")
        try:
            sown = np.random.SeedSequence(entropy, spawn_key=spawn_key, n_children_spawned=spawned)
        except (TypeError, ValueError, OverflowError) as error:
            raise FlawError(f"it holds an invalid seed ({error})") from None
        bits = kind(sown)
        _check_state(state, bits.state)
        bits.state = state
        return np.random.Generator(bits)

    def _random_state(self, payload: Json) -> np.random.RandomState:
        state = self.decode(payload)
        found = np.random.RandomState(_bit_generator(state)(0))
        _check_state(state, found.get_state(legacy=False))
        found.set_state(state)
        return found


def members(payload: Json, *names: str) -> list[Json]:
    """The members of an object, which must have exactly these names."""
    if not isinstance(payload, dict) or payload.keys() != set(names):
        raise FlawError(f"it lacks an object with the members {', '.join(names)}")
    return [payload[name] for name in names]


def _whole(payload: Json) -> int:
    if not isinstance(payload, str) or not re.fullmatch(r"-?[0-9]{1,1000}", payload, re.ASCII):
        raise FlawError("it holds something else where a whole number should be")
    return int(payload)


def _special_float(payload: Json) -> float:
    if not isinstance(payload, str) or payload not in FLOATS:
        raise FlawError("it holds something else where nan or inf should be")
    return FLOATS[payload]


def _numeric_dtype(payload: Json) -> DType:
    if isinstance(payload, str) and re.fullmatch(r"[<>|][biuf][1248]", payload):
        try:
            return np.dtype(payload)
        except TypeError:
            pass
    raise FlawError(f"it holds the unknown type of numbers {str(payload)[:20]!r}")


def _strings(payload: Json) -> np.ndarray:
    if not isinstance(payload, list) or not all(isinstance(item, str) for item in payload):
        raise FlawError("it holds something else where a list of strings should be")
    found = np.empty(len(payload), dtype=object)
    found[:] = payload
    return found


# --- random generators -------------------------------------------------------------------------


def _bit_generator(state: Any) -> Any:
    """The class of the bit generator that a state belongs to."""
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in BIT_GENERATORS:
        raise FlawError(f"it holds a random generator of the unknown kind {str(name)[:20]!r}")
    return BIT_GENERATORS[name]


def _check_state(state: dict[str, Any], like: Mapping[str, Any]) -> None:
    """Raise for states that NumPy accepts but that make it read out of bounds or repeat itself."""
    _check_structure(state, like)
    inner = state["state"]
    most = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1, "uinteger": 2**32 - 1}
    for key, number in (_whole_numbers(state) | _whole_numbers(inner)).items():
        if not 0 <= number <= most.get(key, 2**128 - 1):
            raise FlawError(f"it holds a random generator whose {key} is out of range")
    if inner.get("inc", 1) % 2 == 0 or ("pos" in inner and not inner["key"].any()):
        raise FlawError("it holds a random generator in a degenerate state")


def _whole_numbers(state: Mapping[str, Any]) -> dict[str, int]:
    return {key: value for key, value in state.items() if type(value) is int}


def _check_structure(value: Any, like: Any) -> None:
    """Raise unless a state has the same keys, types and shapes as another one."""
    if isinstance(like, dict):
        if not isinstance(value, dict) or value.keys() != like.keys():
            raise FlawError("it holds a random generator without its state")
        for key, item in like.items():
            _check_structure(value[key], item)
    elif type(value) is not type(like):
        raise FlawError("it holds a random generator whose state is of another kind")
    elif isinstance(like, np.ndarray) and (value.dtype, value.shape) != (like.dtype, like.shape):
        raise FlawError("it holds a random generator whose state is of another size")

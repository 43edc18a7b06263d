"""Embedding of the data and the plotting library in a single file."""

from __future__ import annotations

import base64
import gzip
import json
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import ArrayLike

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input

# Data for scripts in the page, by name.
JsonObject: TypeAlias = dict[str, Any]

MISSING = 'the report needs jinja2 and plotly: install them with pip install "bayespca[report]".'


def needed(module: str) -> Any:
    """An optional module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(MISSING) from error


def to_json(value: object) -> str:
    """JSON that is safe inside <script>: no tag can open, and numbers are finite or null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # U+2028 and U+2029 end lines in older JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # UTF-8 cannot encode half a surrogate pair.
    return text.encode("utf-8", "replace").decode("utf-8")


def _finite(value: object) -> object:
    """The value with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


def numbers(values: ArrayLike, digits: int = 4) -> list[float]:
    """Numbers rounded to `digits` digits of the largest, which is all that a screen can show."""
    array = np.asarray(values, dtype=np.float64)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max()) if finite.size else 0.0
    if largest == 0:
        return array.tolist()
    places = digits - 1 - int(np.floor(np.log10(largest)))
    # Beyond this, NumPy's rounding multiplies by a power of ten that overflows.
    return (np.round(array, places) if abs(places) < 300 else array).tolist()


def as_numpy(values: Input) -> np.ndarray:
    """An array of any library, a DataFrame or a list as a NumPy array."""
    return to_numpy(values) if is_array_api_obj(values) else np.asarray(values)


def plain(text: str) -> str:
    """Text escaped for Plotly, which would read some names as tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, length: int) -> str:
    """Text cut to a length, for the labels of an axis."""
    return text if len(text) <= length else text[: length - 1] + "…"


@lru_cache(maxsize=1)
def packed_plotly() -> str:
    """Plotly's script, compressed to a third of its size; the browser inflates it."""
    script = needed("plotly.offline").get_plotlyjs().encode("utf-8")
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")

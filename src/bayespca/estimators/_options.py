"""Options of estimators: their meaning, allowed values and former spellings.

Each estimator has its own table `options`, which `table` makes from entries shared here and entries
of its own. The parameters section of its docstring and the checks at the start of `fit` both come
from that table; defaults, and words to choose from, come from the constructor.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

WIDTH = 100
INDENT = " " * 4
# The head of a docstring's entry lists at most this many words.
LISTED = 5
SEEDS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)


@dataclass(frozen=True)
class Constraint:
    """The kinds of values that an option accepts; `a | b` accepts the kinds of both.

    Each kind has an entry in `words`, for messages, and one in `kinds`, for docstrings.
    """

    words: tuple[str, ...]
    kinds: tuple[str, ...]
    fits: Callable[[Any], bool]

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            self.words + other.words,
            self.kinds + other.kinds,
            lambda value: self.fits(value) or other.fits(value),
        )

    @property
    def kind(self) -> str:
        return _listed(self.kinds)

    def check(self, name: str, value: object) -> None:
        """Raise ValueError with the option's name, its allowed values and the one given."""
        if not self.fits(value):
            words = _listed(self.words)
            raise ValueError(f"{name} must be {words}{';' if ',' in words else ','} got {value!r}.")


def _listed(items: Sequence[str]) -> str:
    *others, last = items
    return f"{', '.join(others)} or {last}" if others else last


# --- words -------------------------------------------------------------------------------------


def _is_one_of(value: Any, options: Sequence[object]) -> bool:
    return any(value is one or (np.ndim(value) == 0 and value == one) for one in options)


def one_of(*options: object) -> Constraint:
    """Exactly one of these values."""
    listed = ", ".join(repr(option) for option in options)
    braces = ", ".join(map(quoted, options))
    kind = f"{{{braces}}}" if len(options) <= LISTED else "str"
    return Constraint((f"one of {listed}",), (kind,), lambda value: _is_one_of(value, options))


def word(option: object) -> Constraint:
    """This value, as one kind among others."""
    return Constraint((repr(option),), (quoted(option),), lambda value: _is_one_of(value, [option]))


def quoted(value: object) -> str:
    """The value as a docstring writes it."""
    return f'"{value}"' if isinstance(value, str) else f"{value!r}".replace("e-0", "e-")


# --- numbers -----------------------------------------------------------------------------------


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def whole(least: int, what: str = "") -> Constraint:
    """A whole number of at least `least`; `what` says in messages what it counts."""
    words = f"a whole number of at least {least}" + (f", {what}" if what else "")
    return Constraint((words,), ("int",), lambda value: _is_whole(value, least))


def at_least(least: float) -> Constraint:
    return Constraint(
        (f"a number of at least {least:g}",),
        ("float",),
        lambda value: isinstance(value, Real) and float(value) >= least,
    )


SHARE = Constraint(
    ("a number between 0 and 1",),
    ("float",),
    lambda value: isinstance(value, float | np.floating) and 0 < float(value) < 1,
)
NUMBER = Constraint(("a number",), ("float",), _is_finite)
POSITIVE = Constraint(
    ("a positive number",), ("float",), lambda value: _is_finite(value) and float(value) > 0
)


# --- others ------------------------------------------------------------------------------------


def _is_interval(value: Any) -> bool:
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        return False
    return -np.inf < low < high < np.inf


def _is_sequence(value: Any) -> bool:
    is_some = isinstance(value, Sequence) or np.ndim(value) > 0
    return is_some and not isinstance(value, str)


def _is_seed(value: Any) -> bool:
    several = _is_sequence(value) and all(_is_whole(one, 0) for one in value)
    return several or _is_whole(value, 0) or isinstance(value, SEEDS)


NONE = word(None)
AUTO = word("auto")
FLAG = Constraint(
    ("one of True, False",), ("bool",), lambda value: isinstance(value, Integral | np.bool_)
)
PATH = Constraint(("a path",), ("path",), lambda value: isinstance(value, str | os.PathLike))
SEED = Constraint(
    ("a whole number of at least 0", "a Generator", "a RandomState"),
    ("int", "Generator", "RandomState"),
    _is_seed,
)
INTERVAL = Constraint(("two numbers (lowest, highest)",), ("(low, high)",), _is_interval)


def several(words: str, kind: str, item: Constraint | None = None) -> Constraint:
    """A sequence or an array, whose items all satisfy `item`."""
    return Constraint(
        (words,),
        (kind,),
        lambda value: _is_sequence(value) and (item is None or all(map(item.fits, value))),
    )


def from_annotation(annotation: Any) -> Constraint:
    """The constraint that an annotation implies: words of a `Literal`, or a flag."""
    if get_origin(annotation) is Literal:
        return one_of(*get_args(annotation))
    if annotation is bool:
        return FLAG
    raise TypeError(f"what {annotation!r} may be does not follow from it")


# --- options -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """An option of an estimator.

    Attributes
    ----------
    words
        Its meaning; each line is a paragraph of a docstring, or an item that begins with "* ".
    may_be
        The values allowed; None if the annotation in the constructor says it (a `Literal`, or a
        flag).
    also
        Names that other packages use for values, with ours.
    """

    words: str
    may_be: Constraint | None = None
    also: Mapping[str, str] = field(default_factory=dict)

    def ours(self, value: Any) -> Any:
        """A value under our name for it."""
        return self.also.get(value, value) if isinstance(value, str) else value

    def paragraph(self, name: str, default: Any) -> str:
        """The option's entry in a docstring."""
        assert self.may_be is not None
        head = f"{INDENT}{name} : {self.may_be.kind}"
        if default is not inspect.Parameter.empty:
            head += f", default={quoted(default)}"
        return "\n".join([head, *map(_filled, self.words.split("\n"))]) + "\n"


def _filled(line: str) -> str:
    inner = "  " if line.startswith("* ") else ""
    return textwrap.fill(
        line, WIDTH, initial_indent=2 * INDENT, subsequent_indent=2 * INDENT + inner
    )


Auto = Literal["auto"]
Engine = Literal["auto", "dense", "gram", "randomized", "streaming", "sparse", "dask"]
Noise = Literal["isotropic", "per-feature"]
# Names of engines in scikit-learn's `svd_solver`.
SOLVERS = {"full": "dense", "covariance_eigh": "gram", "arpack": "randomized"}

OF_NOISE = (
    '``"auto"`` takes a thousandth of the noise variance that the closed form of EVB estimates.'
)

SHARED: dict[str, Option] = {
    "method": Option("How the factors and their prior are treated."),
    "n_components": Option("The largest rank allowed.", AUTO | whole(0)),
    "noise": Option("One noise variance, or one for each feature (found by iteration)."),
    "noise_variance": Option("Variance of the noise.", NUMBER | AUTO | word("0db")),
    "prior_variance": Option("c² = cₐ²c_b², the variance of the prior.", NONE | NUMBER),
    "weight_concentration_prior": Option(
        "Parameter of the Dirichlet prior of the weights; smaller ones favour fewer clusters.",
        AUTO | POSITIVE,
    ),
    "a_alpha": Option("Shape of the prior of the precisions αᵢ of the columns of W.", POSITIVE),
    "b_alpha": Option(
        f"Rate of the prior of αᵢ, in the units of the data squared. {OF_NOISE}", AUTO | POSITIVE
    ),
    "a_tau": Option("Shape of the prior of the noise precision τ.", POSITIVE),
    "b_tau": Option(
        f"Rate of the prior of τ, in the units of the data squared. {OF_NOISE}", AUTO | POSITIVE
    ),
    "beta": Option(
        'Precision of the prior of the mean, in the units of the data. ``"auto"`` takes a '
        "thousandth of 1 over the mean square of the data.",
        AUTO | POSITIVE,
    ),
    "center": Option("Whether to remove the column means."),
    "scale": Option("Whether to divide columns by their standard deviations: PCA of correlations."),
    "binarize": Option(
        "Threshold: values above it count as 1, others as 0. With None the data must consist of "
        "0 and 1.",
        NONE | NUMBER,
    ),
    "init": Option("Where the iteration starts."),
    "engine": Option(
        'How to compute singular values: ``"dense"``, ``"gram"``, ``"randomized"``, '
        '``"sparse"``, ``"streaming"``, ``"dask"``, or ``"auto"`` to choose by shape, type and '
        "memory. The names of scikit-learn's `svd_solver` work, too.",
        also=SOLVERS,
    ),
    "max_iter": Option("Maximum number of sweeps.", whole(1)),
    "tol": Option(
        "Sweeps end when the free energy falls by less than this share of it.", at_least(0)
    ),
    "n_init": Option("Number of random starts; the lowest free energy wins.", whole(1)),
    "checkpoint": Option(
        "A file to which the iteration is saved every few seconds. If a fit is interrupted, the "
        "next one with the same data and options resumes it and ends with the same result. The "
        "file is removed when the fit is done.",
        NONE | PATH,
    ),
    "random_state": Option("Seed of the random starts.", NONE | SEED),
    "verbose": Option("Whether `fit` prints a line about what it did."),
}

# The number of columns of Bishop's model.
COLUMNS = Option(
    'Number of columns of W; ``"auto"`` takes one less than the number of features, or of samples '
    "if there are fewer of them.",
    AUTO | whole(0),
)


def table(*shared: str, **own: Option | Constraint | str) -> dict[str, Option]:
    """Make the options table of an estimator.

    Names alone take their entry in `SHARED`. In a keyword, a string replaces the words of that
    entry, a constraint replaces the allowed values, and an `Option` replaces both.
    """
    found = {name: SHARED[name] for name in shared}
    for name, change in own.items():
        if isinstance(change, Option):
            found[name] = change
        elif isinstance(change, Constraint):
            found[name] = replace(SHARED[name], may_be=change)
        else:
            found[name] = replace(SHARED[name], words=change)
    return found


def completed(options: Mapping[str, Option], init: Any) -> dict[str, Option]:
    """Put a table in the order of a constructor; take missing constraints from annotations."""
    hints, names = get_type_hints(init), list(inspect.signature(init).parameters)[1:]
    if sorted(names) != sorted(options):
        wrong = sorted(set(names) ^ set(options))
        raise TypeError(f"the table of options and the constructor differ in {', '.join(wrong)}")
    return {
        name: replace(options[name], may_be=options[name].may_be or from_annotation(hints[name]))
        for name in names
    }


def parameters_section(options: Mapping[str, Option], init: Any) -> str:
    """Write the section on parameters for the docstring of a class."""
    given = inspect.signature(init).parameters
    entries = (option.paragraph(name, given[name].default) for name, option in options.items())
    return f"{INDENT}Parameters\n{INDENT}----------\n{''.join(entries)}"


def current(estimator: Any, name: str) -> Any:
    """An option, under our name for its value."""
    return estimator.options[name].ours(getattr(estimator, name))

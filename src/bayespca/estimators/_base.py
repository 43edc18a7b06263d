"""The base of all estimators: options, one record of the last fit, attributes that read it.

Annotations are evaluated here, because the modules of subclasses do not import their names.
"""

import inspect
import os
import textwrap
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import (
    Any,
    ClassVar,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_origin,
)

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from bayespca.arrays.types import Names
from bayespca.inference.result import Fit, extended
from bayespca.io.kinds import bound_in
from bayespca.sources.data import Features

from . import _input
from ._options import Option, completed, parameters_section

F = TypeVar("F")
C = TypeVar("C", bound=Callable[..., Any])
RECORD: Any = F

# An estimator with any record.
AnyEstimator: TypeAlias = "Estimator[Any]"
# Estimators that can be saved, by name: every class that declares its record.
ESTIMATORS: dict[str, type[AnyEstimator]] = {}
WIDTH = 100
# Kinds that many attributes share.
PER_COMPONENT = "array of shape (n_components_,)"
PER_FEATURE = "array of shape (n_features,)"
PER_ENTRY = "array of shape (n_components_, n_features)"
# What `free_energy_by_rank_` is for models that search over numbers of components.
BY_RANK = (
    "Lowest free energy with each number of components that was tried (index = number), in nats "
    "above the lowest of all; infinite for numbers that were not tried. exp(−F) is no probability: "
    "the bound is looser for more components. Empty if numbers were not compared."
)
# Start of the section that follows the attributes in a docstring.
EXAMPLES = "\nExamples\n----"
# Stack level that leads from `warn`, via an estimator's report and `fit`, to the caller of `fit`.
CALLER = 4


def once(function: C) -> C:
    """`cache` for functions of a class, which type checkers take for unhashable."""
    return cast(C, cache(function))


def typed(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader of the same array of a record, in the dtype of the data."""
    return lambda fit: read(fit).astype(fit.dtype)


class Fitted:
    """An attribute of a fitted estimator, read from its record `fit_`.

    `kind` and `words` go into the docstring of the class. Without `read`, the attribute `name_`
    reads the field `name` of the record; `read` is a function of the record, or the name of another
    field. Before `fit` the attribute does not exist.
    """

    def __init__(
        self, kind: str, words: str = "", read: Callable[[Any], Any] | str | None = None
    ) -> None:
        self.kind, self.words, self._read = kind, words, read
        self.__doc__ = words

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.field = self._read if isinstance(self._read, str) else name.removesuffix("_")
        self._of = self._read if callable(self._read) else attrgetter(self.field)

    def __get__(self, estimator: AnyEstimator, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        if "fit_" not in vars(estimator):
            raise AttributeError(
                f"this {type(estimator).__name__} has no {self.name} before it is fitted."
            )
        return self._of(estimator.fit_)

    def __set__(self, estimator: AnyEstimator, value: Any) -> None:
        raise AttributeError(f"{self.name} cannot be set: it is read from fit_.")

    def is_of(self, record: type) -> bool:
        """Whether this class of records has the field; functions count as having theirs."""
        known = {field for cls in record.__mro__ for field in (*vars(cls), *_annotated(cls))}
        return callable(self._read) or self.field in known

    def paragraph(self) -> str:
        """The attribute's entry in the docstring of its class."""
        head = textwrap.indent(f"{self.name} : {self.kind}", " " * 4)
        indent = " " * 8
        body = textwrap.fill(self.words, WIDTH, initial_indent=indent, subsequent_indent=indent)
        return f"{head}\n{body}\n" if self.words else f"{head}\n"


@dataclass_transform(eq_default=False)
class Estimator(BaseEstimator, Generic[F]):
    """An estimator whose options are fields, and whose last fit is the frozen record `fit_`.

    `class Model(Estimator[Record])` declares the record. Model files, notebooks and the docstring
    need nothing else: attributes are `Fitted`, and the annotations of the record define what a file
    may hold. Other attributes of a fit are annotated, without a value, here and in subclasses.
    """

    fit_: F
    n_features_in_: int
    feature_names_in_: Names

    posterior_ = Fitted("record", "The posterior, which gives scores, densities and predictions.")
    status_ = Fitted(
        "Status",
        "How the fit ended, with advice in plain words. Only closed forms are exact.",
        "outcome",
    )
    free_energy_ = Fitted("float", "−log of the evidence bound, in nats, all constants included.")
    trace_ = Fitted(
        "Trace or None",
        "Free energy, rank, noise variance and time of each step; None for a closed form.",
    )
    converged_ = Fitted("bool", "Whether the iteration settled; True if there was none.")
    n_iter_ = Fitted("int", "Number of steps; a closed form counts as one.")

    # Options of the constructor; see `_options.table`.
    options: ClassVar[Mapping[str, Option]] = {}
    # The class of `fit_`.
    _record: ClassVar[type]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(eq=False, repr=False)(cls)
        record = bound_in(cls).get(RECORD)
        if record is None or not any(
            isinstance(origin := get_origin(base), type) and issubclass(origin, Estimator)
            for base in vars(cls).get("__orig_bases__", ())
        ):
            return
        cls._record = record
        cls.__init__.__signature__ = own_first(cls)  # type: ignore[attr-defined]
        if cls.options:
            cls.options = completed(cls.options, cls.__init__)
        cls.__doc__ = documented(cls)
        known = ESTIMATORS.setdefault(cls.__name__, cls)
        # A notebook cell that runs again defines the same class anew.
        if known.__module__ == cls.__module__:
            ESTIMATORS[cls.__name__] = cls

    def _chosen(self) -> SimpleNamespace:
        """The options, each checked on its own, under our names for values."""
        found: dict[str, Any] = self.get_params(deep=False)
        for name, option in self.options.items():
            if name not in found:
                continue
            found[name] = option.ours(found[name])
            assert option.may_be is not None
            option.may_be.check(name, found[name])
        return SimpleNamespace(**found)

    def _keep(self, fit: F | Fit[Any], features: Features | None = None) -> Self:
        """Replace the last fit and all that belongs to it; call this once nothing can fail."""
        for name in kept_by(type(self)):
            self.__dict__.pop(name, None)
        about = {} if features is None else _input.attributes_of(features)
        record = (
            fit if isinstance(fit, self._record) else extended(cast(Fit[Any], fit), self._record)
        )
        self.__dict__.update(about, fit_=record)
        return self

    def _report(self, fitted: Fit[Any], found: str, start: float, **warned: Any) -> None:
        """Warn as `warn` does, and print a line about the fit if `verbose` is set.

        Only `fit` calls this: the stack level of warnings counts on it.
        """
        warn(fitted, **warned)
        if self.verbose:
            print(f"bayespca: {found}, {time.perf_counter() - start:.2f} s")

    def _reads_holes(self) -> bool:
        """Whether NaN marks a hole rather than a mistake."""
        return False

    def _check_kept(self) -> None:
        """Raise ValueError unless the record and the attributes beside it match."""
        p, names = vars(self).get("n_features_in_"), vars(self).get("feature_names_in_")
        size = getattr(self.fit_, "n_features", p)
        if size is not None and p is None:
            raise ValueError("the attribute n_features_in_ is missing")
        if size != p:
            raise ValueError(f"the sizes of its arrays do not match {p} features")
        if names is not None and names.shape != (p,):
            raise ValueError(f"it does not name {p} features")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, fitted or not, to a file that `bayespca.load` reads.

        The file holds numbers and names, no code. It replaces a file of the same name in a single
        step: if anything goes wrong, the old file stays whole.
        """
        from .persistence import save

        save(self, path)

    # --- notebooks, scikit-learn ---------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """HTML for `_repr_html_`: a fitted model at a glance, or scikit-learn's diagram."""
        if not self.__sklearn_is_fitted__():
            return str(super()._repr_html_inner())
        from ._notebook import fragment

        return fragment(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Output that Jupyter prefers; it has no HTML under ``set_config(display="text")``."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __sklearn_is_fitted__(self) -> bool:
        return "fit_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._reads_holes()
        return tags


class Iterating(Estimator[F], Generic[F]):
    """An estimator that is fitted by iteration; subclasses may have other defaults."""

    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-8
    n_init: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    verbose: bool = False


class Transforming(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """A transformer with one output column per component, in the dtype of the data."""

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class ChoosesNoise:
    """For records with a field `noise` that has a name and the evidence of the models tried."""

    noise_ = Fitted("str", "The noise model, as given or as chosen.", lambda fit: fit.noise.name)
    noise_evidence_ = Fitted(
        "dict",
        'With ``noise="auto"``, the nats by which the evidence of each noise model that was tried '
        "exceeds that of isotropic noise.",
        lambda fit: fit.noise.evidence,
    )


def warn(
    fitted: Fit[Any],
    advice: Collection[str] = (),
    category: type[Warning] = UserWarning,
    *,
    what: str = "the free energy still fell",
) -> None:
    """Warn of an iteration that ended early, and of advice with one of these codes.

    Call this from an estimator's report, which its `fit` calls: the stack level counts on it.
    """
    if not fitted.converged and fitted.trace is not None:
        change = fitted.trace.last_change
        by = f" by a fraction of {change:.1e}" if np.isfinite(change) else ""
        warnings.warn(
            f"{what}{by} in the last of {len(fitted.trace)} steps: raise max_iter or tol. The "
            "result is usable.",
            ConvergenceWarning,
            stacklevel=CALLER,
        )
    for one in fitted.status.advice:
        if one.code in advice:
            warnings.warn(one.text, category, stacklevel=CALLER)


@once
def kept_by(cls: type[AnyEstimator]) -> Mapping[str, Any]:
    """Attributes that an estimator holds once it is fitted, with their annotations.

    Options of a base class do not count, even if a subclass with its own constructor sets them.
    """
    bases = [base for base in reversed(cls.__mro__) if issubclass(base, Estimator)]
    options = {
        "_",
        *(name for base in bases for name in inspect.signature(base.__init__).parameters),
    }
    found = {
        name: annotation
        for base in bases
        for name, annotation in inspect.get_annotations(base, eval_str=True).items()
        if name not in options and getattr(annotation, "__origin__", None) is not ClassVar
    }
    return found | {"fit_": cls._record}


def own_first(cls: type[AnyEstimator]) -> inspect.Signature:
    """The signature of a constructor, with inherited options at the end."""
    signature = inspect.signature(cls.__init__)
    own = {"self", *_annotated(cls)}
    inherited = {name for base in cls.__mro__[1:] for name in _annotated(base)}
    parameters = signature.parameters.values()
    order = sorted(
        parameters, key=lambda one: (one.kind, one.name in inherited or one.name not in own)
    )
    return signature.replace(parameters=order)


def attributes_of(cls: type[AnyEstimator]) -> list[Fitted]:
    """The `Fitted` attributes that the record of an estimator has, the class's own first."""
    found: dict[str, Fitted] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, Fitted) and value.is_of(cls._record):
                found.setdefault(name, value)
    return list(found.values())


def documented(cls: type[AnyEstimator]) -> str:
    """The docstring of a class with sections about its options and its attributes.

    It is not indented: Python 3.13 takes the indentation out of docstrings, older ones leave it in.
    """
    before, examples, after = inspect.cleandoc(cls.__doc__ or "").partition(EXAMPLES)
    entries = [attribute.paragraph() for attribute in attributes_of(cls)]
    # These are not `Fitted`.
    entries.append(
        f"    fit_ : {cls._record.__name__}\n        The record that holds all of these.\n"
    )
    if hasattr(cls._record, "n_features"):
        entries.append(
            "    n_features_in_, feature_names_in_ : int, array\n        As in scikit-learn.\n"
        )
    section = "".join(("    Attributes\n    ----------\n", *entries))
    options = f"{parameters_section(cls.options, cls.__init__)}\n" if cls.options else ""
    return f"{before.rstrip()}\n\n{textwrap.dedent(options + section)}{examples}{after}"


def _annotated(cls: type) -> Mapping[str, Any]:
    return vars(cls).get("__annotations__", {})

"""Options of models of ratings, of several tables and of images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayespca.io.records import How

from .help import model_option, output, reading_option
from .messages import option_name
from .options import Decimal, Delimiter, Fitting, Header, changed
from .standard import to_read
from .values import (
    LIKELIHOODS,
    RatingsMethod,
    ViewNoise,
    as_number,
    checked_bounds,
    checked_kinds,
    positive_or,
    whole_number_or,
)

if TYPE_CHECKING:
    from bayespca.estimators.factorization import MatrixFactorization
    from bayespca.estimators.multi_view import MultiViewPCA


@dataclass(frozen=True)
class Viewing:
    """Options of the fit to several tables: parameters of `MultiViewPCA`."""

    n_components: Annotated[
        str,
        model_option(
            "--n-components",
            callback=whole_number_or("auto"),
            help="The largest number of factors, or auto.",
        ),
    ] = "auto"
    noise: Annotated[ViewNoise, model_option(help="The noise model within each table.")] = "auto"

    likelihood: Annotated[
        list[str] | None,
        model_option(
            metavar="TABLE=KIND",
            callback=checked_kinds,
            help="The kind of cells in a table: auto, normal, bernoulli, categorical, ordinal, "
            "poisson or negative-binomial, as in clinic=auto, or clinic:stage=ordinal for a "
            "column; may be repeated. A kind alone applies to all tables. Without this option, "
            "only columns of numbers are analysed.",
        ),
    ] = None

    def model(self) -> MultiViewPCA:
        from bayespca.estimators.multi_view import MultiViewPCA

        cap: Any = as_number(self.n_components, int)
        return MultiViewPCA(cap, noise=self.noise, likelihood=self.kinds())

    def kinds(self) -> Any:
        """The parameter `likelihood` of `MultiViewPCA`."""
        texts = self.likelihood or ["normal"]
        if texts[0] in ("auto", *LIKELIHOODS):
            return texts[0]
        found: dict[str, Any] = {}
        for text in texts:
            place, _, kind = text.rpartition("=")
            view, _, column = place.partition(":")
            before = found.get(view, {})
            if view in found and not (column and isinstance(before, dict)):
                raise ValueError(
                    f"--likelihood says more than one thing about {view!r}: give a kind for the "
                    "table, or kinds for its columns."
                )
            found[view] = before | {column: kind} if column else kind
        return found


NewRatings = Annotated[
    Path | None,
    reading_option(
        "--new",
        callback=to_read(),
        help="Ratings of new users, who were not in the fit; their answers come from these "
        "ratings alone. Columns: user, item and rating, or item and rating of one user.",
    ),
]


@dataclass(frozen=True)
class FeatureFiles:
    """Files that describe users and items, and whether times of ratings are used."""

    user_features: Annotated[
        Path | None,
        reading_option(
            callback=to_read(),
            help="A row for each user, with the id and columns that describe the user: numbers, "
            "words, or lists such as Action|Comedy. Selects --method gibbs.",
        ),
    ] = None
    item_features: Annotated[
        Path | None, reading_option(callback=to_read(), help="The same for items.")
    ] = None
    times: Annotated[
        bool,
        reading_option(
            "--times",
            help="Also read the column of times, in ratings and in pairs to predict: users may "
            "drift. Selects --method gibbs.",
        ),
    ] = False

    @property
    def are_given(self) -> bool:
        return self.times or self.user_features is not None or self.item_features is not None

    def places(self) -> list[tuple[str, Path | None]]:
        return [("--user-features", self.user_features), ("--item-features", self.item_features)]


@dataclass(frozen=True)
class ReadingRatings:
    """Options for reading ratings, if the format is not recognised."""

    columns: Annotated[
        str | None,
        reading_option(
            help="Names of the columns: user,item,rating, and time with --times; or counted from 0."
        ),
    ] = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    header: Header = None

    def how(self) -> How:
        from bayespca.io.records import How

        return How(delimiter=self.delimiter, decimal=self.decimal, header=self.header)

    def names(self) -> list[str] | None:
        if self.columns is None:
            return None
        return [name.strip() for name in self.columns.split(",")]


@dataclass(frozen=True)
class Factorizing:
    """Options of the fit to ratings: parameters of `MatrixFactorization`."""

    method: Annotated[
        RatingsMethod | None,
        model_option(
            help="evb, epb and emap integrate out both factors, one or none; gibbs draws from the "
            "posterior, predicts best and takes several times as long. The default is evb, with "
            "features or times gibbs."
        ),
    ] = None
    n_components: Annotated[
        str,
        model_option(
            "--n-components",
            # The former name.
            "--components",
            callback=whole_number_or("auto"),
            help="The largest rank allowed, or auto.",
        ),
    ] = "auto"
    biases: Annotated[
        bool, model_option("--biases/--no-biases", help="A bias for each user and each item.")
    ] = True
    noise_variance: Annotated[
        str, model_option(callback=positive_or("auto"), help="A number or auto.")
    ] = "auto"
    bounds: Annotated[
        str,
        model_option(
            callback=checked_bounds, help="Bounds of predictions: low,high; auto; or none."
        ),
    ] = "auto"
    n_draws: Annotated[
        str,
        model_option(
            callback=whole_number_or("auto"),
            help="With gibbs: draws to keep from each chain, or auto.",
        ),
    ] = "auto"
    n_warmup: Annotated[
        str,
        model_option(
            callback=whole_number_or("auto"),
            help="With gibbs: sweeps before the first draw, or auto.",
        ),
    ] = "auto"
    n_chains: Annotated[
        str,
        model_option(
            callback=whole_number_or("auto"), help="With gibbs: number of chains, or auto."
        ),
    ] = "auto"
    implicit: Annotated[
        bool | None,
        model_option(
            "--implicit/--no-implicit",
            help="With gibbs: learn from which items users have rated, whatever the rating; the "
            "default.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        model_option(min=0, help="With gibbs: seed of the random numbers; by default 0."),
    ] = None
    max_iter: Annotated[int, model_option(min=1, help="Maximum number of sweeps.")] = 500
    tol: Annotated[
        float, model_option(min=0, help="Stop when the free energy falls by less than this share.")
    ] = 1e-5

    def model(self, *, has_features: bool) -> MatrixFactorization:
        from bayespca.estimators.factorization import MatrixFactorization

        method = self.method or ("gibbs" if has_features else "evb")
        if has_features and method != "gibbs":
            raise ValueError(
                "--user-features, --item-features and --times are for --method gibbs, not "
                f"{method}."
            )
        if self.seed is not None and method != "gibbs":
            raise ValueError("--seed is for --method gibbs: other methods draw nothing.")
        if self.implicit is not None and method != "gibbs":
            raise ValueError("--implicit and --no-implicit are for --method gibbs.")
        bounds: Any = None if self.bounds == "none" else self.bounds
        if bounds is not None and bounds != "auto":
            low, high = map(float, bounds.split(","))
            bounds = low, high
        return MatrixFactorization(
            method,
            n_components=as_number(self.n_components, int),
            biases=self.biases,
            noise_variance=as_number(self.noise_variance, float),
            bounds=bounds,
            implicit="auto" if self.implicit is None else self.implicit,
            n_draws=as_number(self.n_draws, int),
            n_warmup=as_number(self.n_warmup, int),
            n_chains=as_number(self.n_chains, int),
            random_state=self.seed or 0,
            max_iter=self.max_iter,
            tol=self.tol,
        )


image_option = partial(typer.Option, rich_help_panel="Images (.nii, .nii.gz)")


@dataclass(frozen=True)
class Imaging:
    """Options for images: parameters of `bayespca.imaging.denoise`, and maps to write."""

    mask: Annotated[Path | None, image_option(help="A file with the voxels that take part.")] = None
    patch: Annotated[
        int | None,
        image_option(
            min=2,
            help="Voxels of a patch along each axis; by default the fewest "
            "whose cube has more voxels than there are volumes.",
        ),
    ] = None
    step: Annotated[
        int, image_option(min=1, help="Voxels from one patch to the next; 2 is faster.")
    ] = 1
    noise_map: Annotated[
        Path | None, output(help="An image of the standard deviation of the noise.")
    ] = None
    rank_map: Annotated[Path | None, output(help="An image of the number of components.")] = None
    std_map: Annotated[
        Path | None, output(help="An image of the posterior standard deviation of the signal.")
    ] = None

    @property
    def maps(self) -> list[tuple[str, Path]]:
        """Paths of the requested maps, with their options."""
        asked = {"--noise-map": self.noise_map, "--rank-map": self.rank_map}
        asked["--std-map"] = self.std_map
        return [(name, path) for name, path in asked.items() if path is not None]

    def refuse(self) -> None:
        """Raise if any of these options is given; call it for data that are not an image."""
        for name in changed(self):
            raise ValueError(f"{option_name(name)} is for images (.nii, .nii.gz): leave it out.")


def refuse_for_images(fitting: Fitting, how: How, **others: object) -> None:
    for name in [*changed(fitting), *(name for name, given in others.items() if given is not None)]:
        raise ValueError(f"{option_name(name)} does not apply to an image: leave it out.")
    if how != How():
        raise ValueError("Options on how to read a table do not apply to an image: leave them out.")

"""The options of the commands for ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .options import Decimal, Delimiter, Header
from .panels import MODEL, READING, option
from .standard import to_read
from .values import RatingsMethod, as_number, checked_bounds, positive_or, whole_number_or

if TYPE_CHECKING:
    from bayespca.estimators.factorization import MatrixFactorization
    from bayespca.io.records import How

NewRatings = Annotated[
    Path | None,
    option(
        "--new",
        panel=READING,
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
        option(
            panel=READING,
            callback=to_read(),
            help="A row for each user, with the id and columns that describe the user: numbers, "
            "words, or lists such as Action|Comedy. Selects --method gibbs.",
        ),
    ] = None
    item_features: Annotated[
        Path | None,
        option(panel=READING, callback=to_read(), help="The same for items."),
    ] = None
    times: Annotated[
        bool,
        option(
            "--times",
            panel=READING,
            help="Also read the column of times, in ratings and in pairs to predict: users may "
            "drift. Selects --method gibbs.",
        ),
    ] = False

    @property
    def are_given(self) -> bool:
        return self.times or self.user_features is not None or self.item_features is not None

    def places(self) -> list[tuple[str, Path | None]]:
        """The files, each with the option that names it."""
        return [("--user-features", self.user_features), ("--item-features", self.item_features)]


@dataclass(frozen=True)
class ReadingRatings:
    """Options for reading ratings, if the format is not recognised."""

    columns: Annotated[
        str | None,
        option(
            panel=READING,
            help="Names of the columns: user,item,rating, and time with --times; or counted "
            "from 0.",
        ),
    ] = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    header: Header = None

    def how(self) -> How:
        from bayespca.io.records import How

        return How(delimiter=self.delimiter, decimal=self.decimal, header=self.header)

    def names(self) -> list[str] | None:
        """The given names of the columns."""
        if self.columns is None:
            return None
        return [name.strip() for name in self.columns.split(",")]


@dataclass(frozen=True)
class Factorizing:
    """Options of the fit to ratings: parameters of `MatrixFactorization`."""

    method: Annotated[
        RatingsMethod | None,
        option(
            panel=MODEL,
            help="evb, epb and emap integrate out both factors, one or none; gibbs draws from the "
            "posterior, predicts best and takes several times as long. The default is evb, with "
            "features or times gibbs.",
        ),
    ] = None
    n_components: Annotated[
        str,
        option(
            "--n-components",
            # The former name.
            "--components",
            panel=MODEL,
            callback=whole_number_or("auto"),
            help="The largest rank allowed, or auto.",
        ),
    ] = "auto"
    biases: Annotated[
        bool,
        option("--biases/--no-biases", panel=MODEL, help="A bias for each user and each item."),
    ] = True
    noise_variance: Annotated[
        str, option(panel=MODEL, callback=positive_or("auto"), help="A number or auto.")
    ] = "auto"
    bounds: Annotated[
        str,
        option(
            panel=MODEL,
            callback=checked_bounds,
            help="Bounds of predictions: low,high; auto; or none.",
        ),
    ] = "auto"
    n_draws: Annotated[
        str,
        option(
            panel=MODEL,
            callback=whole_number_or("auto"),
            help="With gibbs: draws to keep from each chain, or auto.",
        ),
    ] = "auto"
    n_chains: Annotated[
        str,
        option(
            panel=MODEL,
            callback=whole_number_or("auto"),
            help="With gibbs: number of chains, or auto.",
        ),
    ] = "auto"
    implicit: Annotated[
        bool | None,
        option(
            "--implicit/--no-implicit",
            panel=MODEL,
            help="With gibbs: learn from which items users have rated, whatever the rating; the "
            "default.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(panel=MODEL, min=0, help="With gibbs: seed of the random numbers; by default 0."),
    ] = None
    max_iter: Annotated[int, option(panel=MODEL, min=1, help="Maximum number of sweeps.")] = 500
    tol: Annotated[
        float,
        option(panel=MODEL, min=0, help="Stop when the free energy falls by less than this share."),
    ] = 1e-5

    def model(self, *, has_features: bool) -> MatrixFactorization:
        from bayespca.estimators.factorization import MatrixFactorization

        method = self.method or (RatingsMethod.gibbs if has_features else RatingsMethod.evb)
        if has_features and method is not RatingsMethod.gibbs:
            raise ValueError(
                "--user-features, --item-features and --times are for --method gibbs, not "
                f"{method.value}."
            )
        if self.seed is not None and method is not RatingsMethod.gibbs:
            raise ValueError("--seed is for --method gibbs: other methods draw nothing.")
        if self.implicit is not None and method is not RatingsMethod.gibbs:
            raise ValueError("--implicit and --no-implicit are for --method gibbs.")
        bounds: Any = None if self.bounds == "none" else self.bounds
        if bounds is not None and bounds != "auto":
            low, high = map(float, bounds.split(","))
            bounds = low, high
        return MatrixFactorization(
            method.value,
            n_components=as_number(self.n_components, int),
            biases=self.biases,
            noise_variance=as_number(self.noise_variance, float),
            bounds=bounds,
            implicit="auto" if self.implicit is None else self.implicit,
            n_draws=as_number(self.n_draws, int),
            n_chains=as_number(self.n_chains, int),
            random_state=self.seed or 0,
            max_iter=self.max_iter,
            tol=self.tol,
        )

"""Attributes and posterior draws that `BinaryPCA` and `GeneralizedPCA` share.

Annotations are evaluated here, because the modules of subclasses do not import their names.
"""

from dataclasses import KW_ONLY, replace
from typing import Any, Generic, Literal, TypeVar

from bayespca.discrete import posterior as read
from bayespca.discrete.data import TableCells
from bayespca.discrete.fit import BinaryFit, TableFit
from bayespca.discrete.gibbs.fit import columns
from bayespca.discrete.gibbs.fit import fit as draw
from bayespca.engines.decomposing import available_memory
from bayespca.inference.chains import Schedule

from . import _arviz, _validation
from ._base import BY_RANK, PER_COMPONENT, Fitted, typed
from ._constraints import whole
from ._iterating import Iterating
from ._options import Option
from ._transforming import Transforming

F = TypeVar("F", bound=BinaryFit | TableFit)
# Above this, chains that start at one place are still on their way (Vehtari et al. 2021 ask for
# 1.01, for results that are quoted to the last digit).
LARGEST_R_HAT = 1.1
SCHEDULE = ("n_chains", "n_warmup", "n_draws", "thin")
WITH_DRAWS = ("normal", "bernoulli", "categorical", "ordinal")

# Options of the draws, for the tables of both classes.
OPTIONS: dict[str, Option | str] = {
    "method": Option(
        '``"vb"`` finds the variational posterior. ``"gibbs"`` finds it first and then draws from '
        "the exact posterior; predictions are better and take minutes. The number of components, "
        "the components and densities remain those of the variational posterior; predictions for "
        "cells and scores average over draws, which have ten more components unless "
        "`n_components` gives their number. It needs normal, Bernoulli, categorical or ordinal "
        "cells, and keeps their noise and cut points fixed."
    ),
    "n_draws": Option("Number of draws to keep from each chain.", whole(1)),
    "n_warmup": Option("Number of sweeps before the first draw.", whole(0)),
    "n_chains": Option("Number of chains, all of which start at the variational answer.", whole(1)),
    "thin": Option("Number of sweeps for each draw.", whole(1)),
}


class NaturalPCA(Transforming, Iterating[F], Generic[F]):
    """PCA of natural parameters."""

    n_components_ = Fitted("int", "Number of components found; 0 is a legal answer.")
    explained_variance_ = Fitted(
        PER_COMPONENT,
        "Variance of the natural parameters along each component.",
        typed(lambda fit: read.score_variance(fit.posterior)),
    )
    free_energy_by_rank_ = Fitted("array", BY_RANK)
    free_energy_ = Fitted(
        "float",
        "−log of a bound on the evidence that takes natural parameters to be normal; in "
        "nats, all constants included.",
    )
    n_samples_ = Fitted("int", "Number of rows.")
    draws_ = Fitted(
        "NaturalDraws or None",
        'Loadings and means of each chain and draw, with ``method="gibbs"``; else None.',
        lambda fit: fit.posterior.draws,
    )
    r_hat_ = Fitted(
        "dict or None",
        "Rank-normalised split R-hat of the log likelihood of the cells and of the variance of the "
        "natural parameters, computed by ArviZ. None without draws, or if ArviZ is not installed.",
    )
    ess_ = Fitted("dict or None", "Bulk effective sample size of the same quantities.")

    _: KW_ONLY
    method: Literal["vb", "gibbs"] = "vb"
    n_draws: int = 100
    n_warmup: int = 500
    n_chains: int = 2
    thin: int = 5

    def _check_schedule(self) -> None:
        """Raise if options of the draws are set and the method makes none."""
        if self.method == "gibbs":
            return
        defaults = type(self)().get_params(deep=False)
        for name in SCHEDULE:
            if getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs method='gibbs', but the method is "
                    f"{self.method!r}: leave it at {defaults[name]}."
                )

    def _with_draws(self, fitted: F, cells: TableCells, most: int | None) -> F:
        """The fit with draws from the posterior of these cells, with ``method="gibbs"``."""
        if self.method == "vb":
            return fitted
        found = fitted.posterior
        H = columns(found.prior.size, most, cells.shape)
        self._check_size(cells.shape[1], H)
        draws = draw(
            cells,
            (found.b, found.prior),
            H,
            schedule=Schedule(**{name: int(getattr(self, name)) for name in SCHEDULE}),
            rng=_validation.generator(self.random_state),
        )
        judged = _arviz.diagnostics(draws.quantities())
        r_hat, ess = judged if judged else (None, None)
        mixing = _arviz.mixing(r_hat, LARGEST_R_HAT, "n_warmup and thin")
        _arviz.warn(mixing)
        posterior: Any = replace(found, draws=draws)
        status = fitted.status + mixing
        return replace(fitted, posterior=posterior, r_hat=r_hat, ess=ess, status=status)

    def _check_size(self, p: int, H: int) -> None:
        needed = 8.0 * self.n_chains * self.n_draws * p * (H + 1)
        if needed > available_memory():
            raise ValueError(
                f"the draws of loadings would need {needed / 1e9:.1f} GB: lower n_components or "
                "n_draws (with thin to keep the length of the chains)."
            )


def refuse_likelihoods(likelihoods: dict[str, str]) -> None:
    """Raise for columns whose cells the sampler cannot turn into normal measurements."""
    for name, likelihood in likelihoods.items():
        if likelihood not in WITH_DRAWS:
            raise ValueError(
                f"method='gibbs' does not support {likelihood} cells, which column {name!r} has; "
                f"it supports {', '.join(WITH_DRAWS)}. Use method='vb', or another likelihood for "
                "this column."
            )

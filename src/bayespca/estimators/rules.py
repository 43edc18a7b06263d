"""The number of components that `BayesianPCA` keeps, beside those of other rules."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from bayespca import engines, inference, sources
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input, RandomState
from bayespca.linear.rank_rules import bi_cross_validation, sign_flips
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES
from bayespca.lowrank.records import PCAFit
from bayespca.noise.asked import EVB, Asked
from bayespca.noise.complete import Complete
from bayespca.noise.fitting import fit_with_holes
from bayespca.sources.data import Data, Where
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.rank_rules import (
    gavish_donoho,
    marchenko_pastur,
    minka,
    parallel_analysis,
    screenot,
)
from bayespca.spectrum.records import Spectrum
from bayespca.spectrum.solving import solve

from . import _input, _validation
from ._checks import ONE_ROW
from ._halves import HALVES, check_halves, is_cheap
from ._lookalikes import Lookalikes, check_lookalikes, of_fit
from ._options import Auto
from .pca import BayesianPCA, RankWarning
from .ranks import RankReport
from .stability import finds_all, stability_of
from .summary import summarize

# Rules that decompose the matrix again and again are tried only up to this many cells.
MANY_CELLS = 1_000_000
# Noise models that take no sweeps on complete data, and those tried on data with holes.
COMPLETE = ("isotropic", "per-feature", "per-sample", "both", "autoregressive")
WITH_HOLES = ("isotropic", "per-feature", "per-sample", "both")
HOLES = (
    "Because of the holes, these were not tried: Minka's evidence, the Marchenko–Pastur edge, "
    "Gavish–Donoho, ScreeNOT and parallel analysis, which need the singular values of complete "
    "data; bi-cross-validation, which needs complete blocks; autoregressive noise, which needs "
    "complete rows; and half samples, each of which would take as many sweeps as the data. "
    "BayesianPCAImputer fills holes."
)
LARGE = (
    f"Sign flips, bi-cross-validation and other noise models were not tried: they pass over the "
    f"data many times, so they run only on dense data in memory of up to {MANY_CELLS:,} cells. "
    "Pass a subset of the rows to run them."
)


def rank_report(
    X: Input,
    *,
    center: bool = True,
    scale: bool = False,
    n_halves: int | Auto = "auto",
    lookalikes: int = 0,
    random_state: RandomState = 0,
) -> RankReport:
    """The number of components that `BayesianPCA` keeps, and how sure it is, beside other rules.

    Data with holes get EVB's answers and sign flips of the matrix with column means in its
    holes; `not_asked` of the report says why the other rules have no answer.
    `random_state` seeds the simulated noise, signs and blocks of the rules that need them.

    `n_halves` is the number of half samples that show what comes back (`rank_stability`); 0 for
    none. ``"auto"`` takes 100 for complete data in memory with up to 200,000 cells; beyond that
    they take longer than a fit.

    `lookalikes` is the number of tables that are drawn from fits with each plausible number of
    components, to count how often each rule is right on tables like X; 50 are enough to tell good
    rules from bad ones. Each takes as long as a fit.

    >>> from bayespca import rank_report
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> report = rank_report(X)
    >>> report.n_components, report.evb
    (3, 3)
    """
    default = BayesianPCA(center=center, scale=scale)
    data = _input.read(default, X, dask=True, twice=True)
    rng = _validation.generator(random_state)
    if n_halves == "auto":
        n_halves = HALVES if is_cheap(data) else 0
    if n_halves:
        check_halves(data, n_halves)
    if lookalikes:
        check_lookalikes(data, lookalikes)
    with warnings.catch_warnings():
        # A fit warns of its data; here only the number is wanted.
        warnings.simplefilter("ignore", RankWarning)
        default.fit(data.values)
    if data.holes or default.engine_ == "holes":
        return _with_default(_of_holes(data, rng, center=center, scale=scale), default)
    values = _scaled(data.values, center=center, scale=scale)
    found = engines.decompose(values, plan=solve, center=center, n_needed=EVERYTHING)
    report = _with_default(rank_rules(found.spectrum, random_state=rng), default)
    if data.where is Where.DENSE and math.prod(values.shape) <= MANY_CELLS:
        Z = np.asarray(to_numpy(values), dtype=np.float64)
        # EVB's rank under each noise model.
        asked = Asked(center=default.center, scale=default.scale)
        complete = Complete(data.values, ClosedForm(), inference.Looping(), asked)
        allowed = set(complete.allowed())
        tried = [name for name in COMPLETE if name in allowed]
        ranks = {name: complete.fit(NOISES[name]).n_components for name in tried}
        report = replace(report, noise_models=ranks)
        Z = Z - Z.mean(axis=0) if center else Z
        if Z.any() and min(Z.shape) > 1:
            flips, folds = sign_flips(Z, rng), bi_cross_validation(Z, rng)
            report = replace(report, sign_flips=flips, bi_cross_validation=folds)
    else:
        report = replace(report, not_asked=LARGE)
    if lookalikes:
        drawn = lookalikes_of(default, X, n_tables=lookalikes, random_state=random_state)
        report = replace(report, lookalikes=drawn)
    if not n_halves:
        return report
    halves = stability_of(default, data.values, n_halves=n_halves, random_state=random_state)
    return replace(report, stability=halves)


def lookalikes_of(
    model: BayesianPCA, X: Input, *, n_tables: int = 50, random_state: RandomState = 0
) -> Lookalikes:
    """Tables drawn like X, and how often a model like the given one finds their components.

    The model is already fitted to X; other rules count the components of these tables, too.
    """
    if not finds_all(model):
        raise ValueError(
            "look-alikes show how often method='evb' finds the number of components: leave method, "
            "n_components and noise_variance at their defaults, or skip the look-alikes."
        )
    data = _input.read(BayesianPCA(), X, in_memory=True)
    check_lookalikes(data, n_tables)
    rng = _validation.generator(random_state)
    fresh = clone(model).set_params(checkpoint=None, verbose=False)
    center, scale = model.center, model.scale
    asked = Asked(center=center, scale=scale)

    def ranks(values: FloatArray) -> dict[str, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)
            kept = fresh.fit(values).n_components_
        scaled = _scaled(values, center=center, scale=scale)
        found = engines.decompose(scaled, plan=solve, center=center, n_needed=EVERYTHING)
        report = replace(rank_rules(found.spectrum, random_state=rng), n_components=kept)
        Z = scaled - scaled.mean(axis=0) if center else scaled
        return replace(report, sign_flips=sign_flips(Z, rng)).ranks()

    return of_fit(model.fit_, data, ranks, asked, n_tables=n_tables, rng=rng)


def _scaled(values: Any, *, center: bool, scale: bool) -> Any:
    """Values divided by the scales of their columns if they are to be scaled."""
    if not scale:
        return values
    return sources.rescaled_columns(values, sources.column_scales(values, center=center))


def _with_default(report: RankReport, default: BayesianPCA) -> RankReport:
    """The report with the number that the default keeps, and how sure it is."""
    summary = summarize(default)
    return replace(
        report,
        n_components=summary.rank,
        how_sure=summary.how_sure,
        sentence=summary.sentence,
        probabilities=summary.rank_probabilities,
        noise=summary.noise,
        note=ONE_ROW if summary.n_samples == 1 else "",
    )


def rank_rules(spectrum: Spectrum, *, random_state: RandomState = 0) -> RankReport:
    """`rank_report` for data that are already decomposed, from all their singular values."""
    solution, rng = solve(spectrum), _validation.generator(random_state)
    return RankReport(
        evb=solution.rank,
        minka=minka(spectrum).rank,
        marchenko_pastur=marchenko_pastur(spectrum),
        gavish_donoho=gavish_donoho(spectrum),
        parallel_analysis=parallel_analysis(spectrum, random_state=rng),
        screenot=screenot(spectrum),
        noise_variance=solution.noise_variance,
        threshold=solution.threshold,
    )


def _of_holes(data: Data, rng: np.random.Generator, *, center: bool, scale: bool) -> RankReport:
    _input.check_any_value(data)

    def fitted(noise: str) -> PCAFit:
        asked = Asked(noise=noise, center=center, scale=scale, number=EVB)
        return fit_with_holes(data.values, ClosedForm(), inference.Looping(), asked)

    plain = fitted(ISOTROPIC.name)
    others = {name: fitted(name).n_components for name in WITH_HOLES if name != ISOTROPIC.name}
    ranks = {ISOTROPIC.name: plain.n_components} | others
    few = data.where is Where.DENSE and math.prod(data.values.shape) <= MANY_CELLS
    return RankReport(
        evb=ranks[ISOTROPIC.name],
        sign_flips=_flips_of_filled(data, rng, center=center, scale=scale) if few else None,
        noise_variance=plain.noise_variance,
        threshold=float(plain.threshold),
        noise_models=ranks,
        not_asked=HOLES,
    )


def _flips_of_filled(
    data: Data, rng: np.random.Generator, *, center: bool, scale: bool
) -> int | None:
    """Rank by sign flips, with 0 in the holes.

    A share of the signal is left, with the same rank. The noise differs in variance between cells,
    which flipped signs preserve.
    """
    Z = np.asarray(to_numpy(data.values), dtype=np.float64)
    there = ~np.isnan(Z)
    counts = np.maximum(there.sum(axis=0), 1)
    if center:
        Z = Z - np.where(there, Z, 0.0).sum(axis=0) / counts
    Z = np.where(there, Z, 0.0)
    if scale:
        size = np.sqrt((Z**2).sum(axis=0) / counts)
        Z = Z / np.where(size > 0, size, 1.0)
    return sign_flips(Z, rng) if Z.any() and min(Z.shape) > 1 else None

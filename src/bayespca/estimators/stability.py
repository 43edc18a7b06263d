"""Stability of the rank and the directions of data in halves of their rows."""

from __future__ import annotations

from sklearn.base import clone

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import Input, RandomState
from bayespca.lowrank.noise_models import NOISES
from bayespca.sources.data import Data

from . import _input, _validation
from ._halves import HALVES, RankStability, are_few, check_halves, of_fit
from .pca import BayesianPCA, Noise

# Engines for data with holes, sparse data, and rows that are not in memory.
NOT_IN_MEMORY = ("holes", "streaming", "dask", "sparse")


def rank_stability(
    X: Input,
    *,
    n_halves: int = HALVES,
    center: bool = True,
    scale: bool = False,
    noise: Noise = "auto",
    random_state: RandomState = 0,
) -> RankStability:
    """Fit random halves of the rows of X by EVB, and say how often ranks and directions recur.

    The halves come in pairs that have no row in common. Each half finds its own rank, mean and
    level of noise; all rows together show how noise differs between rows and columns. The rank is
    found as in all rows (`rule`): the most probable number, or EVB's own where the data do not
    determine it. A half has
    half of the information: a component that comes back in nearly all halves is there beyond
    doubt, and one near the detection limit comes back in few.

    Parameters
    ----------
    X
        Complete data in memory.
    n_halves
        Number of half samples.
    center, scale, noise
        As in `BayesianPCA`, except that noise of single cells is replaced by noise of columns.
    random_state
        Seed of the halves.

    Examples
    --------
    >>> from bayespca import rank_stability
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> rank_stability(X, n_halves=20).ranks
    {3: 0.9, 4: 0.1}
    """
    model = BayesianPCA(center=center, scale=scale, noise=noise)
    data = _readable(X, n_halves)
    return stability_of(model.fit(data.values), X, n_halves=n_halves, random_state=random_state)


def stability_of(
    model: BayesianPCA, X: Input, *, n_halves: int = HALVES, random_state: RandomState = 0
) -> RankStability:
    """`rank_stability` for a model that is already fitted to X; it is not refitted."""
    if not finds_all(model):
        # As in halves, EVB has to find the rank and the noise.
        raise ValueError(
            "half samples are fitted by method='evb', which finds the rank and the noise: leave "
            "method, n_components and noise_variance at their defaults, or skip the stability."
        )
    values = on_host(_readable(X, n_halves).values)
    center, rule = model.center, str(model.n_components)
    if NOISES[model.noise_].cells:
        model = clone(model).set_params(noise="per-feature").fit(values)
    rng = _validation.generator(random_state)
    return of_fit(model.fit_, values, center=center, n_halves=n_halves, rng=rng, rule=rule)


def _readable(X: Input, n_halves: int) -> Data:
    data = _input.read(BayesianPCA(), X, in_memory=True)
    check_halves(data, n_halves)
    return data


def is_halved_unasked(model: BayesianPCA) -> bool:
    """Whether to compute halves by default: they are as quick as the fit, and comparable to it."""
    if model.engine_ in NOT_IN_MEMORY or NOISES[model.noise_].cells:
        return False
    return finds_all(model) and are_few(model.n_samples_, model.n_features_in_)


def finds_all(model: BayesianPCA) -> bool:
    """Whether EVB finds both the rank and the noise."""
    found = isinstance(model.n_components, str)
    return found and (model.method, model.noise_variance) == ("evb", "auto")

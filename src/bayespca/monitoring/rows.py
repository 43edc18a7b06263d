"""Hotelling's T² and Q of new rows, with limits and contributions of the columns.

The law of `monitoring.law` assumes that scores and noise are normal. Real rows may have longer or
shorter tails. Limits are therefore calibrated with rows that are known to be clean: each tenth of
them is left out in turn, and a model with the same options is fitted to the others. T² and Q of the
rows left out are divided by their limits under the law, which allow for their holes and for the
number of rows of the fit. The ratios r of new clean rows are exchangeable with these: the last of
n + 1 is among the largest ⌊α(n + 1)⌋ with a probability of at most α (Vovk, Gammerman and Shafer,
"Algorithmic Learning in a Random World", Springer 2005). So limits are multiplied by

    the ⌈(1 − α)(n + 1)⌉-th smallest of r₁, …, rₙ.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Index, Input, Matrix, Vector
from bayespca.estimators import _input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators._posterior import PosteriorReader
from bayespca.estimators.wording import feature_names
from bayespca.lowrank.combined import inside
from bayespca.lowrank.filtering import filtered
from bayespca.lowrank.patterns import arranged
from bayespca.lowrank.scales import NORMAL

from .law import RowLaw, row_law

# Ratios refer to the law's limits at this share.
REFERENCE = 0.05
N_SPLITS = 10
NAMES = {"t2": "T²", "q": "Q"}


@dataclass(frozen=True, eq=False)
class Calibration:
    """T² and Q of clean rows over their limits, each row left out of the fit; for any share.

    Attributes
    ----------
    t2, q
        Ratios to the limits for normal rows at 5 %, sorted. `t2` is empty if the model has no
        components.

    >>> import numpy as np
    >>> from bayespca.monitoring import Calibration
    >>> clean = Calibration(t2=np.linspace(0, 2, 99), q=np.linspace(0, 1, 99))
    >>> round(clean.t2_factor(0.05), 2), round(clean.q_factor(0.05), 2)
    (1.92, 0.96)
    """

    t2: Vector
    q: Vector

    def t2_factor(self, alpha: float) -> float:
        """The ratio of T² to its limit at 5 % that a share α of clean rows exceeds."""
        return _factor(self.t2, alpha) if self.t2.size else float("nan")

    def q_factor(self, alpha: float) -> float:
        """The ratio of Q to its limit at 5 % that a share α of clean rows exceeds."""
        return _factor(self.q, alpha)


def _factor(ratios: Vector, alpha: float) -> float:
    place = ceil((1 - alpha) * (ratios.size + 1))
    if place > ratios.size:
        needed = ceil(1 / alpha) - 1
        raise ValueError(
            f"limits at alpha={alpha:g} need {needed} clean rows or more, but there are "
            f"{ratios.size}: choose a larger alpha, or do without clean rows."
        )
    return float(ratios[place - 1])


@dataclass(frozen=True)
class Alarm:
    """A statistic of a row that is above its limit.

    `row` counts from 0, `statistic` is "T²" or "Q", and `columns` names the columns that contribute
    most to it, largest first.

    >>> from bayespca.monitoring import Alarm
    >>> alarm = Alarm(7, "Q", value=160.0, limit=25.0, columns=("feature 4",))
    >>> f"row {alarm.row}: {alarm.statistic} is {alarm.value:.0f}, above {alarm.limit:.0f}"
    'row 7: Q is 160, above 25'
    """

    row: int
    statistic: str
    value: float
    limit: float
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Monitoring:
    """T² and Q of n rows, with limits for clean rows.

    >>> from bayespca import BayesianPCA, monitoring
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> found = monitoring.statistics(BayesianPCA().fit(X[:80]), X[80:])
    >>> found.t2.shape, found.q_contributions.shape
    ((20,), (20, 12))

    Attributes
    ----------
    t2, q
        Squared distances of each row from the mean along the components, and from the components;
        (n,). T² is NaN without components; both are NaN for rows with no more cells than there are
        components.
    t2_limit, q_limit
        Limits that a share `alpha` of clean rows exceeds; (n,), because they depend on the holes
        of a row.
    t2_contributions, q_contributions
        Contribution of each column: (n, p). Rows sum to `t2` and `q`. Contributions to T² may be
        negative; holes contribute 0.
    alpha
        The share of clean rows above each limit.
    names
        Names of the columns.
    """

    t2: Vector
    q: Vector
    t2_limit: Vector
    q_limit: Vector
    t2_contributions: Matrix
    q_contributions: Matrix
    alpha: float
    names: tuple[str, ...]

    @property
    def t2_alarms(self) -> NDArray[np.bool_]:
        """Mask of the rows that are too far from the mean along the components."""
        return self.t2 > self.t2_limit

    @property
    def q_alarms(self) -> NDArray[np.bool_]:
        """Mask of the rows that are too far off the components."""
        return self.q > self.q_limit

    @property
    def is_alarm(self) -> NDArray[np.bool_]:
        """Mask of the rows above either limit."""
        return self.t2_alarms | self.q_alarms

    @property
    def unchecked(self) -> Index:
        """Rows that have too few cells for either statistic."""
        return np.flatnonzero(np.isnan(self.q))

    def alarms(self, n_columns: int = 3) -> list[Alarm]:
        """A record for each statistic above its limit, in row order."""
        return [
            self._alarm(int(row), short, n_columns)
            for row in np.flatnonzero(self.is_alarm)
            for short in NAMES
            if getattr(self, f"{short}_alarms")[row]
        ]

    def _alarm(self, row: int, short: str, n_columns: int) -> Alarm:
        parts = getattr(self, f"{short}_contributions")[row]
        most = np.argsort(-parts, kind="stable")[:n_columns]
        value, limit = (float(getattr(self, name)[row]) for name in (short, f"{short}_limit"))
        columns = tuple(self.names[j] for j in most if parts[j] > 0)
        return Alarm(row, NAMES[short], value, limit, columns)


def statistics(
    model: AnyEstimator,
    X: Input,
    *,
    alpha: float = 0.05,
    calibration: Calibration | None = None,
) -> Monitoring:
    """Hotelling's T² and Q (the squared prediction error) of rows, with limits for clean new ones.

    `model` is a fitted `BayesianPCA` or `VariationalPCA`; X has its columns, and may have
    holes (NaN). The limits are those of the posterior predictive distribution: they allow for the
    few rows from which the components, their variances and the noise were estimated
    (`monitoring.law` has the formulas). The share `alpha` holds for each statistic, and for rows
    that the model was not fitted to; rows of the fit lie closer to it.

    These limits assume normal rows. If rows are not normal, pass as `calibration` the result of
    `calibrate` for clean rows: it moves the limits so that a share `alpha` of such rows exceeds
    them.

    If columns have noise of their own, both statistics are in units of that noise; otherwise Q is
    in the units of the scaled data. If the noise of neighbouring columns is correlated, the
    contribution of a column is that of its part which the left neighbour does not predict.

    >>> from bayespca import BayesianPCA, monitoring
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(200, 12, 3, random_state=0).X
    >>> new = X[150:].copy()
    >>> new[7, 4] += 12.0
    >>> found = monitoring.statistics(BayesianPCA().fit(X[:150]), new, alpha=0.001)
    >>> [(alarm.row, alarm.statistic, alarm.columns[0]) for alarm in found.alarms()]
    [(7, 'Q', 'feature 4')]
    """
    _check(model, alpha)
    values = to_numpy(_input.read_new(model, X, "statistics"))
    if calibration is None:
        return _of_rows(model, values, alpha)
    found = _of_rows(model, values, REFERENCE)
    t2_limit = found.t2_limit * calibration.t2_factor(alpha)
    q_limit = found.q_limit * calibration.q_factor(alpha)
    return replace(found, t2_limit=t2_limit, q_limit=q_limit, alpha=alpha)


def calibrate(model: AnyEstimator, X: Input) -> Calibration:
    """Compare clean rows with the limits for normal rows; pass the result to `statistics`.

    X are the rows that the model was fitted to, or others of the same process. Each tenth of them
    is left out in turn and compared with a model of the others that has the same options and as
    many components, which takes ten fits. Tenths are drawn at random: if a process drifts, later
    rows differ more from the fit than these do.

    With n rows the share of clean new rows above a limit is α on average, with an error of about
    √(α(1 − α)/n): limits from few rows are rough, and α cannot be below 1/(n + 1).

    >>> import numpy as np
    >>> from bayespca import BayesianPCA, monitoring
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_t(3, size=(700, 2)) @ rng.normal(size=(2, 10)) + rng.normal(size=(700, 10))
    >>> model = BayesianPCA(noise="isotropic").fit(X[:300])
    >>> clean = monitoring.calibrate(model, X[:300])
    >>> monitored = [monitoring.statistics(model, X[300:], calibration=c) for c in (None, clean)]
    >>> [round(float(found.t2_alarms.mean()), 3) for found in monitored]
    [0.068, 0.043]
    """
    _check(model, REFERENCE)
    values = to_numpy(_input.read_new(model, X, "calibrate"))
    if len(values) < 2 * N_SPLITS:
        raise ValueError(
            f"clean rows are left out in turns, a tenth at a time: give {2 * N_SPLITS} or more, "
            f"there are {len(values)}."
        )
    # T² depends on the number of components.
    same, k = clone(model), model.n_components_
    if k and "min_components" in same.get_params():
        same.set_params(n_components=k, min_components=k)
    ratios = []
    for rest, some in KFold(N_SPLITS, shuffle=True, random_state=0).split(values):
        with warnings.catch_warnings():
            # The fit to all rows has already given these warnings.
            warnings.simplefilter("ignore")
            found = _of_rows(clone(same).fit(values[rest]), values[some], REFERENCE)
        ratios.append((found.t2 / found.t2_limit, found.q / found.q_limit))
    t2, q = (np.sort(np.concatenate(each)) for each in zip(*ratios, strict=True))
    return Calibration(t2[~np.isnan(t2)], q[~np.isnan(q)])


def _of_rows(model: AnyEstimator, values: FloatArray, alpha: float) -> Monitoring:
    combined, p = model.posterior_.combined, values.shape[1]
    posterior, values = inside(model.posterior_, values)
    mean, scale = to_numpy(posterior.mean), to_numpy(posterior.scale)
    Z = np.asarray((values - mean) / scale, dtype=np.float64)
    partials = getattr(posterior, "partials", ())
    if partials and np.isnan(Z).any():
        raise ValueError(
            "rows with holes cannot be checked by a model with autoregressive noise: fill the "
            "holes first, or fit with noise='per-feature'."
        )
    law = row_law(model.fit_, model._degrees())
    found = _of_scaled(filtered(Z, partials), law, alpha, tuple(feature_names(model)))
    if combined is None:
        return found
    others = combined.others(p)
    of_t2, of_q = np.zeros((2, len(values), p))
    of_t2[:, others], of_q[:, others] = found.t2_contributions, found.q_contributions
    return replace(found, t2_contributions=of_t2, q_contributions=of_q)


def _check(model: AnyEstimator, alpha: float) -> None:
    if not isinstance(model, PosteriorReader):
        raise TypeError(
            "T² and Q need a BayesianPCA or a VariationalPCA, not an object of the type "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be above 0 and below 1, got {alpha!r}.")
    if getattr(model.posterior_, "cell_tails", NORMAL).are_heavy:
        raise ValueError(
            "T² and Q have no known limits where single cells have noise of their own: fit with "
            "noise='per-feature'."
        )


def _of_scaled(Z: FloatArray, law: RowLaw, alpha: float, names: tuple[str, ...]) -> Monitoring:
    """T² and Q of scaled rows; rows with the same holes share matrices and limits."""
    seen = ~np.isnan(Z)
    order, starts, first = arranged(seen)
    t2, q, t2_limit, q_limit = np.full((4, len(Z)), np.nan)
    of_t2, of_q = np.zeros((2, *Z.shape))
    for begin, end, example in zip(starts[:-1], starts[1:], first, strict=True):
        rows, cells = order[begin:end], seen[example]
        count = int(cells.sum())
        if count <= len(law.components):
            continue
        place = np.ix_(rows, np.flatnonzero(cells))
        of_t2[place], of_q[place] = contributions(Z[place], law, cells)
        q[rows], q_limit[rows] = of_q[rows].sum(axis=1), law.q_limit(alpha, count)
        if len(law.components):
            t2[rows], t2_limit[rows] = of_t2[rows].sum(axis=1), law.t2_limit(alpha)
    return Monitoring(t2, q, t2_limit, q_limit, of_t2, of_q, alpha, names)


def contributions(
    Z: FloatArray, law: RowLaw, cells: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Contributions of each observed cell to T² and to Q of rows Z, both (n, m).

    T² = yᵀS⁻¹y with y = G⁻¹Wₒz, so cell j adds zⱼ·(WₒᵀG⁻¹S⁻¹y)ⱼ to it. To Q it adds eⱼ².
    """
    W = law.components[:, cells]
    inverse = np.linalg.pinv(W @ W.T, hermitian=True)
    Y = Z @ (W.T @ inverse)
    S = (np.diag(law.spread) + law.noise_variance * inverse) * law.mean_error
    along = Y @ np.linalg.pinv(S, hermitian=True) @ inverse @ W
    return Z * along, (Z - Y @ W) ** 2

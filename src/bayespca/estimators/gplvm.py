"""`GPLVM`: curved latent spaces by Gaussian processes, with the number of dimensions found."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.namespaces import on_accelerator
from bayespca.arrays.types import ArrayOrPair, FloatArray, Input, Numbers, RandomState
from bayespca.inference.result import extended
from bayespca.nonlinear import new_rows
from bayespca.nonlinear.data import prepared
from bayespca.nonlinear.fit import FEW_ROWS, GPFit, GPModel, MapModel
from bayespca.nonlinear.kernels import Kernel, kernel_named
from bayespca.nonlinear.pairs import HOST, ArrayPairs, Pairs
from bayespca.nonlinear.posterior import GPPosterior, predicted, sampled
from bayespca.nonlinear.start import MOST_ROWS

from . import _input, _validation
from ._base import BY_RANK, PER_COMPONENT, PER_FEATURE, Fitted, Iterating, Transforming, typed
from ._options import AUTO, Auto, Constraint, Noise, Option, table, whole
from .pca import BayesianPCA

# Most dimensions and inducing points that "auto" starts with, and most dimensions that are tried
# for sheets that have to be unrolled.
DIMENSIONS, INDUCING = 10, 50
UNROLLED = 3
# With at most this many features, principal components may hide a sheet that is rolled up.
FEW_FEATURES = 4

KERNEL = Constraint(
    ('names of parts joined by "+"',), ("str",), lambda value: isinstance(value, str)
)


class GPLVM(Transforming, Iterating[GPFit]):
    """PCA with curves: a Gaussian process latent variable model that finds its dimensions.

    Row n is f(xₙ) + noise, with a point xₙ in a latent space of few dimensions and a function f
    that is only assumed to be smooth: each feature is a Gaussian process over the latent space
    (Lawrence 2005). Both points and functions are integrated out (Titsias and Lawrence 2010).
    The fit starts from principal components and keeps the noise small until the latent space has
    formed. It drops a dimension if the free energy is lower without it, and `nonlinear_evidence_`
    says by how many nats curves beat the planes of `BayesianPCA`.

    NaN in X marks holes, both in `fit` and afterwards: only observed cells count. If X is a torch
    or CuPy array on an accelerator and the kernel is the squared exponential, the accelerator
    computes sums over rows and pairs of inducing points; fitted attributes are NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import GPLVM
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(0, 3, size=150)
    >>> curve = np.stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)], axis=1)
    >>> model = GPLVM(random_state=0).fit(curve + 0.05 * rng.normal(size=curve.shape))
    >>> model.n_components_
    1
    >>> bool(model.nonlinear_evidence_ > 0)
    True
    """

    options = table(
        *("checkpoint", "verbose", "center"),
        n_components=Option(
            'The largest number of latent dimensions; ``"auto"`` is ten. The fit drops a dimension '
            'if the free energy is lower without it. With ``method="map"`` it is the number '
            'itself, and ``"auto"`` takes that of `BayesianPCA`.',
            AUTO | whole(1),
        ),
        method='``"vb"``: latent points and functions are integrated out. ``"map"``: latent points '
        "are point-estimated, without inducing points (Lawrence 2005); for complete data of up to "
        "a few thousand rows.",
        kernel=Option(
            'The shape of the functions: ``"squared-exponential"`` (smooth curves), ``"linear"`` '
            '(planes: probabilistic PCA), ``"bias"``, ``"white"``, or a sum such as '
            '``"squared-exponential+linear"``. `bayespca.nonlinear.kernels` has the same names as '
            "constants, which can be added.",
            KERNEL,
        ),
        n_inducing=Option(
            "Number of inducing points, which represent the functions. More of them follow finer "
            'curves, at a cost that grows with their square. ``"auto"`` is 50, or one for each row '
            "if there are fewer rows.",
            AUTO | whole(1),
        ),
        noise="One noise variance for all features, or one for each, with a signal variance of its "
        "own for each.",
        max_iter="Maximum number of steps, of ten iterations of L-BFGS each.",
        tol="The descent ends when a step lowers the free energy by less than this share of the "
        "gain over noise alone.",
        n_init="Number of starts, which differ in their inducing points; the lowest free energy "
        "wins.",
        random_state="Seed of the inducing points, and of `sample`.",
    )

    n_components_ = Fitted("int", "Number of latent dimensions.")
    relevance_ = Fitted(
        PER_COMPONENT,
        "Prior variance of each dimension in units of its squared length scale, largest first.",
        typed(lambda fit: fit.posterior.prior),
    )
    embedding_ = Fitted(
        "array of shape (n_samples, n_components_)",
        "Latent points of the training rows: posterior means, in units of the length scales.",
        typed(lambda fit: fit.posterior.mean),
    )
    embedding_std_ = Fitted(
        "array of shape (n_samples, n_components_)",
        "Posterior standard deviations of these latent points.",
        typed(lambda fit: np.sqrt(fit.posterior.variance)),
    )
    nonlinear_evidence_ = Fitted(
        "float",
        "Nats by which the free energy is below that of `BayesianPCA` with the same kind of noise; "
        "positive if curves describe the data better than planes.",
    )
    linear_free_energy_ = Fitted("float", "The free energy of that `BayesianPCA`.")
    noise_variance_ = Fitted(
        "float",
        "The noise variance; the mean over features if each has its own.",
        lambda fit: float(fit.posterior.noise.mean()),
    )
    feature_noise_variance_ = Fitted(
        PER_FEATURE, "The noise variance of each feature.", typed(lambda fit: fit.posterior.noise)
    )
    inducing_points_ = Fitted(
        "array of shape (n_inducing, n_components_)",
        "Latent points at which the functions are represented.",
        typed(lambda fit: fit.posterior.Z),
    )
    mean_ = Fitted(PER_FEATURE, "Means of the features.", typed(lambda fit: fit.posterior.offset))
    free_energy_by_rank_ = Fitted("array", BY_RANK)
    n_samples_ = Fitted("int", "Number of rows.")

    n_components: int | Auto = "auto"
    method: Literal["vb", "map"] = "vb"
    _: KW_ONLY
    kernel: str = "squared-exponential"
    n_inducing: int | Auto = "auto"
    noise: Noise = "isotropic"
    center: bool = True
    max_iter: int = 100
    tol: float = 1e-3

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Fit the model; `callback` is as in `BayesianPCA`, called after each step.

        If an error occurs, the estimator stays as it was.
        """
        start = time.perf_counter()
        self._chosen()
        kernel = kernel_named(self.kernel)
        pairs = ArrayPairs(X) if on_accelerator(X) else HOST
        data = _input.read_with_holes(self, X, reset=True, least_rows=2)
        _input.check_any_value(data)
        _input.check_every_column(data)
        values = np.asarray(data.values, np.float64)
        varying = np.fmax.reduce(values) > np.fmin.reduce(values)
        if not varying.any():
            raise ValueError(
                "No column of X varies, so there is no latent space to find: "
                f"{values.shape[1]} feature(s), {values.shape[0]} row(s)."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The PCA that curves are compared with; the iteration starts from its result. With a
            # cap, even an idle one, it does not try other noise models just to give advice.
            cap = max(min(values[:, varying].shape), 1)
            linear = BayesianPCA(n_components=cap, noise=self.noise, random_state=0)
            linear.set_params(center=self.center).fit(values[:, varying])
        fitted = self._fitted(values[:, varying], kernel, linear, pairs, callback)
        status, n = fitted.status, len(values)
        if self.n_inducing != "auto" and int(self.n_inducing) > n:
            status = status.but(
                "fewer-inducing",
                f"n_inducing={self.n_inducing} exceeds the number of rows: {n} were used.",
            )
        if not varying.all():
            some, names = np.flatnonzero(~varying)[:5], data.features.names
            shown = [f"column {j}" if names is None else f"'{names[j]}'" for j in some]
            text = f"Constant columns were ignored: {', '.join(shown)}."
            status = status.but("constant-columns", text)
        kept = extended(
            fitted,
            GPFit,
            posterior=_with_constant(fitted.posterior, values, varying),
            linear_free_energy=float(linear.free_energy_),
            status=status,
            dtype=np.dtype(data.dtype),
        )
        self._keep(kept, data.features)
        p = values.shape[1]
        gain = f"{kept.nonlinear_evidence:+.4g} nats over a linear PCA"
        found = f"{n}×{p}, {self.method}: {kept.n_components} latent dimensions"
        energy = f"free energy {kept.free_energy:.6g} ({gain}) after {kept.n_iter} steps"
        self._report(kept, f"{found}, {energy}", start)
        return self

    def fit_transform(self, X: Input, y: object = None) -> Numbers:
        """Fit the model and return the latent points of its rows, `embedding_`."""
        return self.fit(X, y).embedding_

    def _fitted(
        self,
        values: FloatArray,
        kernel: Kernel,
        linear: BayesianPCA,
        pairs: Pairs,
        callback: inference.Callback | None,
    ) -> GPFit:
        holes = bool(np.isnan(values).any())
        if holes and self.method == "map":
            raise ValueError(
                "Input X contains NaN, and method='map' is for complete data: use method='vb', or "
                "fill the holes first."
            )
        if self.method == "map" and self.noise != "isotropic":
            raise ValueError("method='map' has one noise variance: leave noise at 'isotropic'.")
        filled = np.asarray(linear.impute(values)) if holes else values
        rows = prepared(
            values,
            filled,
            center=self.center,
            per_feature=self.noise == "per-feature",
            pairs=pairs,
        )
        looping = _validation.looping(self, callback)
        n, p = values.shape
        most = min(DIMENSIONS if self.n_components == "auto" else int(self.n_components), p, n - 1)
        if self.method == "map":
            if self.n_components == "auto":
                most = min(max(linear.n_components_, 1), most)
            return inference.fit(MapModel(kernel, most), rows, looping)
        inducing = min(INDUCING if self.n_inducing == "auto" else int(self.n_inducing), n)
        found = inference.fit(GPModel(kernel, most, inducing), rows, looping)
        others = [
            inference.fit(
                GPModel(kernel, count, inducing, unroll=True),
                rows,
                looping.for_part(f"unrolled-{count}"),
            )
            for count in self._unrolled(found, linear, kernel, values.shape)
            if count <= most
        ]
        return min([found, *others], key=lambda one: one.free_energy)

    def _unrolled(
        self, found: GPFit, linear: BayesianPCA, kernel: Kernel, shape: tuple[int, int]
    ) -> Sequence[int]:
        """Numbers of dimensions to try for sheets that principal components may fail to show.

        Sheets may be rolled up too tightly if there are few features, or if curves seem to gain
        nothing. A line among few rows is quick to try, so it is tried whenever more dimensions were
        found.
        """
        if shape[0] > MOST_ROWS or "squared-exponential" not in kernel.parts:
            return ()
        if shape[1] <= FEW_FEATURES or found.free_energy >= linear.free_energy_:
            return range(1, UNROLLED + 1)
        return (1,) if shape[0] <= FEW_ROWS and found.n_components > 1 else ()

    # --- latent points -------------------------------------------------------------------------

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the latent points of rows; with `return_std` also standard deviations.

        They follow from the observed cells, in units of the length scales.
        """
        wide, dtype = _input.read_wide(self, X)
        latent = new_rows.placed(self.posterior_, wide).best
        mean, std = latent.mean.astype(dtype), np.sqrt(latent.variance).astype(dtype)
        return (mean, std) if return_std else mean

    def inverse_transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Rows at given latent points, without noise; `return_std` adds standard deviations."""
        check_is_fitted(self)
        T = _input.read_scores(X, self.n_components_, self.embedding_)
        mean, variance = predicted(self.posterior_, np.asarray(T, np.float64))
        mean, std = mean.astype(T.dtype), np.sqrt(variance).astype(T.dtype)
        return (mean, std) if return_std else mean

    # --- cells ---------------------------------------------------------------------------------

    def impute(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Rows with their holes (NaN) filled by their predictive mean; other cells stay.

        With `return_std` it also returns standard deviations, noise included; observed cells have
        0.
        """
        wide, dtype = _input.read_wide(self, X)
        mean, variance = new_rows.filled(self.posterior_, new_rows.placed(self.posterior_, wide))
        holes = np.isnan(wide)
        filled = np.where(holes, mean, wide).astype(dtype)
        std = np.where(holes, np.sqrt(variance + self.posterior_.noise), 0.0)
        return (filled, std.astype(dtype)) if return_std else filled

    def denoise(self, X: Input) -> Numbers:
        """Posterior mean of rows without their noise."""
        wide, dtype = _input.read_wide(self, X)
        modes = new_rows.placed(self.posterior_, wide)
        return new_rows.filled(self.posterior_, modes)[0].astype(dtype)

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Numbers:
        """Log predictive density of the known cells of each row."""
        return new_rows.log_density(self.posterior_, _input.read_wide(self, X)[0])

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Numbers:
        """New rows: latent points from their prior, functions there, and noise."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples!r}.")
        seed = self.random_state if random_state is None else random_state
        X = sampled(self.posterior_, int(n_samples), _validation.generator(seed))
        return X.astype(self.fit_.dtype)

    # --- contracts -----------------------------------------------------------------------------

    def _reads_holes(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.method == "vb"
        return tags


def _with_constant(
    found: GPPosterior, values: FloatArray, varying: NDArray[np.bool_]
) -> GPPosterior:
    """The posterior of all columns; constant ones keep their value at every latent point."""
    if varying.all():
        return found
    D = varying.size

    def spread(part: FloatArray, fill: FloatArray | float) -> FloatArray:
        whole = np.full(D, fill) if np.ndim(fill) == 0 else np.array(fill, np.float64)
        whole[varying] = part
        return whole

    weights = np.zeros((len(found.weights), D))
    weights[:, varying] = found.weights
    return replace(
        found,
        weights=weights,
        kind=spread(found.kind, 0.0),
        offset=spread(found.offset, np.nanmax(values, axis=0)),
        signal=spread(found.signal, 0.0),
        noise=spread(found.noise, float(found.noise.mean())),
        mean_variance=spread(found.mean_variance, 0.0),
    )

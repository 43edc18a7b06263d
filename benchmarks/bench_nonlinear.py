"""Curves: GPLVM on oil flow and Frey faces, against GPy, GPyTorch and BayesianPCA.

Times are CPU seconds of one thread: run it with OMP_NUM_THREADS=1. GPy and GPyTorch are skipped if
they are not installed. GPyTorch depends on torch: install torch's CPU build before it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from timing import heading, line

from bayespca import GPLVM, BayesianPCA

# As in Titsias and Lawrence's experiment with oil flow.
DIMENSIONS, INDUCING = 10, 50
# Faces have many small components, and need more of both.
FACES = 40, 150
SEEDS, PEER_SEEDS = range(10), range(4)
# GPy: its usual steps, and steps with the noise first held at a share of the variance.
STEPS, HELD_STEPS, SHARE = 1000, 300, 0.01
# GPyTorch: steps of Adam, rows in a batch and learning rate, as in its tutorial.
ADAM, BATCH, RATE = 5000, 100, 0.01


@dataclass(frozen=True)
class Found:
    """Result of a fit: latent points in length scales, the most relevant dimension first.

    `trace` has the bound at each step, as pairs of CPU seconds and bound.
    """

    latent: np.ndarray
    bound: float
    seconds: float
    trace: tuple[tuple[float, float], ...] = ()

    def until(self, bound: float) -> float:
        """CPU seconds until the bound was reached; infinite if it never was."""
        return next((cpu for cpu, value in self.trace if value >= bound), np.inf)


def errors(latent: np.ndarray, labels: np.ndarray) -> int:
    """Number of rows whose nearest neighbour is of another class."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(latent).kneighbors(return_distance=False)
    return int((labels[nearest[:, 0]] != labels).sum())


def said(what: str, found: Found, labels: np.ndarray) -> None:
    two, every = errors(found.latent[:, :2], labels), errors(found.latent, labels)
    print(
        f"    {what}: {two} errors on two dimensions, {every} on all {found.latent.shape[1]}, "
        f"bound {found.bound:.0f}, {found.seconds:.1f} s",
        flush=True,
    )


# --- fits --------------------------------------------------------------------------------------


def by_us(X: np.ndarray, seed: int, **options: Any) -> Found:
    clock: list[float] = []
    start = time.process_time()
    model = GPLVM(random_state=seed, **options)
    model.fit(X, callback=lambda step, info: clock.append(time.process_time() - start))
    seconds = time.process_time() - start
    bounds = -np.asarray(model.trace_.free_energy)
    trace = tuple(zip(clock, bounds.tolist(), strict=False))
    return Found(model.embedding_, -float(model.free_energy_), seconds, trace)


def by_gpy(Y: np.ndarray, seed: int, *, held: int, steps: int) -> Found:
    """Fit GPy from its own start, with the noise held fixed for the first `held` steps."""
    from GPy.models import BayesianGPLVM

    trace: list[tuple[float, float]] = []
    start = time.process_time()

    class Watched(BayesianGPLVM):
        def parameters_changed(self) -> None:
            super().parameters_changed()
            trace.append((time.process_time() - start, number(self._log_marginal_likelihood)))

    np.random.seed(seed)  # noqa: NPY002 (it is what GPy draws from)
    model = Watched(Y, DIMENSIONS, num_inducing=INDUCING)
    if held:
        model.likelihood.variance = SHARE * Y.var()
        model.likelihood.variance.fix(warning=False)
        model.optimize("lbfgsb", max_iters=held)
        model.likelihood.variance.constrain_positive(warning=False)
    model.optimize("lbfgsb", max_iters=steps)
    seconds = time.process_time() - start
    return Found(of_gpy(model), number(model.log_likelihood()), seconds, tuple(trace))


def number(value: Any) -> float:
    """GPy's bound, which is an array of shape (1, 1) with some versions of NumPy."""
    return float(np.ravel(value)[0])


def of_gpy(model: Any) -> np.ndarray:
    """Latent means of GPy in units of length scales, most relevant first."""
    scales = np.asarray(model.kern.lengthscale)
    order = np.argsort(scales)
    return np.asarray(model.X.mean)[:, order] / scales[order]


def by_gpytorch(Y: np.ndarray, seed: int) -> Found:
    """Fit the Bayesian GP-LVM of GPyTorch's tutorial, started at principal components.

    Its bound keeps the distribution of inducing variables, and samples latent points.
    """
    import gpytorch
    import torch
    from gpytorch.models.gplvm.bayesian_gplvm import BayesianGPLVM
    from gpytorch.models.gplvm.latent_variable import VariationalLatentVariable
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    n, d = Y.shape
    batch = torch.Size([d])

    class Model(BayesianGPLVM):
        def __init__(self) -> None:
            Z = torch.randn(d, INDUCING, DIMENSIONS)
            q_u = CholeskyVariationalDistribution(INDUCING, batch_shape=batch)
            strategy = VariationalStrategy(self, Z, q_u, learn_inducing_locations=True)
            U, S, _ = np.linalg.svd(Y, full_matrices=False)
            first = torch.tensor((U * S)[:, :DIMENSIONS], dtype=torch.float32)
            prior = gpytorch.priors.NormalPrior(
                torch.zeros(n, DIMENSIONS), torch.ones(n, DIMENSIONS)
            )
            latent = VariationalLatentVariable(n, d, DIMENSIONS, first, prior)
            super().__init__(latent, strategy)
            self.mean_module = gpytorch.means.ZeroMean(ard_num_dims=DIMENSIONS)
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=DIMENSIONS)
            )

        def forward(self, X: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(X), self.covar_module(X)
            )

    start = time.process_time()
    model, data = Model(), torch.tensor(Y, dtype=torch.float32)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=batch)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    draws = np.random.default_rng(seed)
    for _ in range(ADAM):
        rows = draws.choice(n, BATCH, replace=False)
        adam.zero_grad()
        loss = -elbo(model(model.sample_latent_variable()[rows]), data[rows].T).sum()
        loss.backward()
        adam.step()
    seconds = time.process_time() - start
    with torch.no_grad():
        sampled = [elbo(model(model.sample_latent_variable()), data.T).sum() for _ in range(10)]
        scales = model.covar_module.base_kernel.lengthscale.numpy().ravel()
        order = np.argsort(scales)
        latent = model.X.q_mu.numpy()[:, order] / scales[order]
    return Found(latent, n * float(np.mean(sampled)), seconds)


PEERS: dict[str, tuple[str, Callable[[np.ndarray, int], Found]]] = {
    "GPy, 200 steps": ("GPy", lambda Y, seed: by_gpy(Y, seed, held=0, steps=200)),
    f"GPy, {STEPS} steps": ("GPy", lambda Y, seed: by_gpy(Y, seed, held=0, steps=STEPS)),
    f"GPy, noise held for {HELD_STEPS} steps, then {HELD_STEPS} more": (
        "GPy",
        lambda Y, seed: by_gpy(Y, seed, held=HELD_STEPS, steps=HELD_STEPS),
    ),
    f"GPyTorch, {ADAM} steps": ("gpytorch", by_gpytorch),
}


# --- oil flow ----------------------------------------------------------------------------------


def oil_flow(X: np.ndarray, labels: np.ndarray) -> None:
    heading("Oil flow, 1000×12: nearest neighbours of another class, nothing chosen")
    by_us(X, 0)  # so that compilation is not timed
    found = [by_us(X, seed) for seed in SEEDS]
    for seed, one in zip(SEEDS, found, strict=True):
        said(f"seed {seed}", one, labels)
    most = max(errors(one.latent[:, :2], labels) for one in found)
    line("most errors on two dimensions", f"{most}", "≤ 2")
    line("CPU, median", f"{np.median([one.seconds for one in found]):.1f} s", "≤ 5 s")
    scores = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    print(f"    principal components: {errors((scores[0] * scores[1])[:, :2], labels)} errors")


def same_bound(X: np.ndarray, labels: np.ndarray) -> None:
    """Compare bounds of the same quantity: no model has a mean, and all get centred data."""
    heading("Oil flow, columns centred, models without means: bounds, and CPU until the same one")
    Y = X - X.mean(axis=0)
    ours = [by_us(Y, seed, center=False) for seed in PEER_SEEDS]
    for seed, one in zip(PEER_SEEDS, ours, strict=True):
        said(f"GPLVM, seed {seed}", one, labels)
    for name, (package, fit) in PEERS.items():
        if not find_spec(package):
            print(f"    {name}: skipped, pip install {package.lower()}")
            continue
        for seed in PEER_SEEDS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = fit(Y, seed)
            said(f"{name}, seed {seed}", theirs, labels)
            if theirs.trace:
                compared(ours[seed], theirs)


def compared(ours: Found, theirs: Found) -> None:
    """Print the CPU time until the highest bound that both reach."""
    both = min(max(value for _, value in one.trace) for one in (ours, theirs))
    mine, other = ours.until(both), theirs.until(both)
    line(f"        CPU until {both:.0f}", f"{mine / other:.2f} ({mine:.1f}/{other:.1f} s)", "≤ 0.1")


def hidden_cells(X: np.ndarray) -> None:
    heading("Oil flow, 10 % of the cells hidden at random: RMSE there, in units of the data")
    for seed in PEER_SEEDS:
        holes = np.random.default_rng(seed).random(X.shape) < 0.1
        Y = np.where(holes, np.nan, X)
        for name, model in (("GPLVM", GPLVM(random_state=seed)), ("BayesianPCA", BayesianPCA())):
            start = time.process_time()
            filled = np.asarray(model.fit(Y).impute(Y))
            line(
                f"split {seed}, {name} ({time.process_time() - start:.1f} s)",
                f"{rmse(filled, X, holes):.4f}",
                "≤ 0.067" if name == "GPLVM" else "–",
            )


def rmse(filled: np.ndarray, X: np.ndarray, holes: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - X)[holes] ** 2)))


# --- faces -------------------------------------------------------------------------------------


def split_faces(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks of a tenth of the frames, and of half of the pixels in each, which are hidden."""
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(X), bool)
    chosen[rng.choice(len(X), len(X) // 10, replace=False)] = True
    holes = np.zeros(X.shape, bool)
    for row in np.flatnonzero(chosen):
        holes[row, rng.choice(X.shape[1], X.shape[1] // 2, replace=False)] = True
    return chosen, holes


def faces_by_gpy(train: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Fit GPy to complete frames, and fill the others one by one."""
    from GPy.models import BayesianGPLVM

    np.random.seed(0)  # noqa: NPY002 (it is what GPy draws from)
    mean = train.mean(axis=0)
    model = BayesianGPLVM(train - mean, DIMENSIONS, num_inducing=INDUCING)
    model.likelihood.variance = SHARE * train.var()
    model.likelihood.variance.fix(warning=False)
    model.optimize("lbfgsb", max_iters=100)
    model.likelihood.variance.constrain_positive(warning=False)
    model.optimize("lbfgsb", max_iters=200)
    filled = new.copy()
    for row in filled:
        latent, _ = model.infer_newX((row - mean)[None], optimize=True)
        guess = np.asarray(model.predict(latent)[0])[0] + mean
        row[np.isnan(row)] = guess[np.isnan(row)]
    return filled


def learned(model: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda train, new: np.asarray(model.fit(train).impute(new))


def faces(X: np.ndarray) -> None:
    heading("Frey faces, 1965×560: half of the pixels of a tenth of the frames hidden, RMSE there")
    chosen, holes = split_faces(X, seed=0)
    new = np.where(holes, np.nan, X)[chosen]
    ours = GPLVM(n_components=FACES[0], n_inducing=FACES[1], random_state=0)
    works = {"GPLVM": learned(ours), "BayesianPCA": learned(BayesianPCA())}
    works |= {"GPy": faces_by_gpy} if find_spec("GPy") else {}
    for name, work in works.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = work(X[~chosen], new)
        seconds = time.process_time() - start
        line(f"{name} ({seconds:.0f} s)", f"{rmse(filled, X[chosen], holes[chosen]):.2f}", "least")


def main() -> None:
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print("oil flow and Frey faces: set BAYESPCA_DATA to the folder of oilflow.npz")
        return
    with np.load(Path(folder) / "oilflow.npz") as file:
        X, labels = file["X"].astype(float), file["y"]
    with np.load(Path(folder) / "freyfaces.npz") as file:
        frames = file["X"].astype(float)
    oil_flow(X, labels)
    hidden_cells(X)
    same_bound(X, labels)
    faces(frames)

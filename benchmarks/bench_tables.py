"""Tables with columns of all kinds: simulated ones, mixed tables with holes, and counts.

Simulated tables give ranks, intervals and log loss. The peers are scikit-learn, FAMD, gcimpute and
missforest for mixed tables with hidden cells, and glmpca and bipca for counts.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from timing import heading

from bayespca import GeneralizedPCA
from bayespca.discrete import posterior as read
from bayespca.discrete.columns import as_cells, places

STRENGTH = {"normal": 1.0, "bernoulli": 1.2, "ordinal": 1.2, "categorical": 1.2}
LEVELS, COUNTS = ("bernoulli", "categorical", "ordinal"), ("poisson", "negative-binomial")
SEEDS = 10
RANK = 3


def level_probabilities(kind: str, z: np.ndarray) -> np.ndarray:
    """p(x = k | z) of all levels for natural parameters z (n, K)."""
    if kind == "categorical":
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)
    cuts = np.array([-1.5, 0.0, 1.5] if kind == "ordinal" else [0.0])
    ends = np.ones((len(z), 1)), np.zeros((len(z), 1))
    above = np.concatenate([ends[0], 1 / (1 + np.exp(cuts - z[:, :1])), ends[1]], axis=1)
    return above[:, :-1] - above[:, 1:]


def column(kind: str, z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column with natural parameters z (n, K), and −log p of each."""
    n = len(z)
    if kind == "normal":
        size = rng.uniform(0.5, 1.0)
        x = z[:, 0] + size * rng.normal(size=n)
        return x, 0.5 * ((x - z[:, 0]) / size) ** 2 + np.log(size * np.sqrt(2 * np.pi))
    if kind in COUNTS:
        return counts(kind, z[:, 0], rng)
    p = level_probabilities(kind, z)
    x = (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return x.astype(float), -np.log(p[np.arange(n), x])


def counts(kind: str, z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    from scipy import stats

    rate, r = np.exp(0.5 * z + 1.0), 3.0
    if kind == "poisson":
        x = rng.poisson(rate)
        return x.astype(float), -stats.poisson.logpmf(x, rate)
    x = rng.poisson(rate * rng.gamma(r, 1 / r, size=z.size))
    return x.astype(float), -stats.nbinom.logpmf(x, r, r / (r + rate))


class Simulated(NamedTuple):
    """A table of rank 3, the −log p of its cells, and the kinds and loadings of its columns.

    The last row of a column's loadings is its mean.
    """

    X: np.ndarray
    loss: np.ndarray
    kinds: dict[int, str]
    loadings: list[np.ndarray]


def simulated(kinds: list[str], n: int, seed: int) -> Simulated:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, RANK))
    found, loadings = [], []
    for kind in kinds:
        # Categories have three logits, the first of which is 0.
        B = STRENGTH.get(kind, 1.0) * rng.normal(size=(RANK, 3 if kind == "categorical" else 1))
        if kind == "categorical":
            B[:, 0] = 0.0
        mean = 0.5 * rng.normal(size=B.shape[1])
        loadings.append(np.vstack([B, mean]))
        found.append(column(kind, A @ B + mean, rng))
    X, loss = (np.stack(each, axis=1) for each in zip(*found, strict=True))
    return Simulated(X, loss, dict(enumerate(kinds)), loadings)


def least_loss(table: Simulated, hidden: np.ndarray, n_nodes: int = 19) -> float:
    """Mean −log p of hidden cells when the loadings are known, but not the scores.

    No predictor can be better on average. The sum is over the nodes of a Gauss–Hermite grid.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grid = np.stack(np.meshgrid(*[nodes] * RANK, indexing="ij"), axis=-1).reshape(-1, RANK)
    each = np.log(weights / weights.sum())
    prior = np.stack(np.meshgrid(*[each] * RANK, indexing="ij"), axis=-1).reshape(-1, RANK).sum(1)
    wide = np.column_stack([grid, np.ones(len(grid))])
    chances = [
        np.log(np.maximum(level_probabilities(kind, wide @ B), 1e-300))
        for kind, B in zip(table.kinds.values(), table.loadings, strict=True)
    ]
    posterior = np.repeat(prior[None], len(table.X), axis=0)
    codes = table.X.astype(int)
    for j, chance in enumerate(chances):
        posterior += np.where(hidden[:, [j]], 0.0, chance.T[codes[:, j]])
    posterior = np.exp(posterior - logsumexp(posterior, axis=1)[:, None])
    found = [
        -np.log((posterior[rows] * np.exp(chance).T[codes[rows, j]]).sum(axis=1))
        for j, chance in enumerate(chances)
        if (rows := np.flatnonzero(hidden[:, j])).size
    ]
    return float(np.concatenate(found).mean())


def log_loss(model: GeneralizedPCA, X: np.ndarray, Y: np.ndarray) -> float:
    """Mean −log density of hidden cells under the model, from draws of their parameters."""
    fit, hidden, n_draws = model.fit_, np.isnan(Y), 100
    shown, full = (
        as_cells(codes_of(fit, each), fit.columns, fit.posterior.parameters) for each in (Y, X)
    )
    m, v = read.natural(fit.posterior, shown)
    rng, total = np.random.default_rng(0), np.full(m.shape, -np.inf)
    for _ in range(n_draws):
        z = m + np.sqrt(v) * rng.normal(size=m.shape)
        total = np.logaddexp(total, full.sites(z, np.zeros_like(z)).log_likelihood)
    total -= np.log(n_draws)
    pairs = zip(fit.columns, places(fit.columns), strict=True)
    found = [
        total[hidden[:, j], place.matrix].sum(axis=1) - np.log(column.scale)
        for j, (column, place) in enumerate(pairs)
    ]
    return -float(np.concatenate(found).mean())


def codes_of(fit: Any, X: np.ndarray) -> np.ndarray:
    """X with each level replaced by its place among the model's levels."""
    out = X.copy()
    for j, col in enumerate(fit.columns):
        if col.levels:
            known = ~np.isnan(X[:, j])
            out[known, j] = [col.levels.index(value) for value in X[known, j]]
    return out


KINDS = ["normal", "bernoulli", "categorical", "ordinal", "poisson", "negative-binomial"]
TABLES = {kind: [kind] * 60 for kind in KINDS} | {"mixed": KINDS * 10}


def recovered(tables: dict[str, list[str]] = TABLES) -> None:
    """Print ranks and losses on hidden cells, for tables of each kind and for a mixed table."""
    heading("GeneralizedPCA, 500×60 of rank 3: ranks right, log loss over that of the truth")
    for name, columns in tables.items():
        for share in (0.0, 0.3):
            ranks, ratios, least, inside, start = [], [], [], [], time.process_time()
            for seed in range(SEEDS):
                table = simulated(columns, 500, seed)
                X, loss, known, _ = table
                hidden = np.random.default_rng(seed).random(X.shape) < share
                Y = np.where(hidden, np.nan, X)
                model = GeneralizedPCA(likelihood=known).fit(Y)
                ranks.append(model.n_components_)
                if share:
                    ratios.append(log_loss(model, X, Y) / loss[hidden].mean())
                    if name in LEVELS:
                        least.append(least_loss(table, hidden) / loss[hidden].mean())
                    inside.append(_held(model, X, Y))
            seconds = (time.process_time() - start) / SEEDS
            right = sum(rank == RANK for rank in ranks)
            held = f", 95 % intervals hold {100 * np.nanmean(inside):.1f} %" if share else ""
            losses = f", log loss {np.mean(ratios):.3f} of the truth's" if share else ""
            losses += f" ({np.mean(least):.3f} with known loadings)" if least else ""
            print(
                f"    {name}, {share:.0%} hidden: rank {right}/{SEEDS} {sorted(set(ranks))}"
                f"{losses}{held}, {seconds:.1f} s of CPU",
                flush=True,
            )


def _held(model: GeneralizedPCA, X: np.ndarray, Y: np.ndarray) -> float:
    """Share of hidden numbers, counts and ranks within their 95 % intervals; NaN without any."""
    _, holes = model.impute(Y, interval=0.95)
    some = np.array([value is not None for value in holes["low"]])
    if not some.any():
        return np.nan
    place = [int(name[1:]) for name in holes["column"][some]]
    truth = X[holes["row"][some], place]
    low, high = (holes[key][some].astype(float) for key in ("low", "high"))
    return float(((low <= truth) & (truth <= high)).mean())


def mixed_wine(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """The wine table with ranks, flags, counts and categories, and the mask of hidden cells."""
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / "wine.npz") as file:
        X, y = np.asarray(file["X"], float), np.asarray(file["y"])
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j in (2, 5, 8):
        cuts = np.quantile(X[:, j], [0.25, 0.5, 0.75])
        ranks = pd.Categorical.from_codes(np.digitize(X[:, j], cuts), list("abcd"), ordered=True)
        table[f"x{j}"] = ranks
    for j in (4, 9):
        table[f"x{j}"] = np.round(10 * (X[:, j] - X[:, j].min()) / np.ptp(X[:, j]))
    for j in (7, 10):
        table[f"x{j}"] = X[:, j] > np.median(X[:, j])
    table["cultivar"] = pd.Categorical([f"kind {label}" for label in y])
    hidden = np.random.default_rng(seed).random(table.shape) < 0.2
    return table, hidden


def as_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The table as numbers: one-hot categories, codes of ranks, flags as 0 and 1; NaN stays."""
    parts = []
    for name, column in table.items():
        if name == "cultivar":
            hot = pd.get_dummies(column, prefix=name).astype(float)
            hot[column.isna().to_numpy()] = np.nan
            parts.append(hot)
        elif hasattr(column, "cat"):
            codes = column.cat.codes.astype(float).replace(-1, np.nan)
            parts.append(codes.to_frame(name))
        else:
            parts.append(column.astype(float).to_frame())
    return pd.concat(parts, axis=1)


def from_numbers(filled: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """The inverse of `as_numbers`: the level of the largest one-hot column, the nearest rank."""
    out = {}
    for name, column in like.items():
        if name == "cultivar":
            hot = filled[[c for c in filled if str(c).startswith("cultivar")]].to_numpy()
            out[name] = np.array(list(column.cat.categories))[hot.argmax(axis=1)]
        elif hasattr(column, "cat"):
            levels = np.array(list(column.cat.categories))
            codes = np.clip(np.round(filled[name].to_numpy()), 0, len(levels) - 1).astype(int)
            out[name] = levels[codes]
        elif column.dtype in (object, bool):
            out[name] = filled[name].to_numpy() > 0.5
        else:
            out[name] = filled[name].to_numpy()
    return pd.DataFrame(out)


def errors(filled: pd.DataFrame, full: pd.DataFrame, hidden: np.ndarray) -> tuple[float, float]:
    """Root mean square error of hidden numbers over their spread, and share of wrong levels."""
    squares, wrong = [], []
    for j, (name, column) in enumerate(full.items()):
        some = hidden[:, j]
        if column.dtype == float:
            apart = filled[name].to_numpy(dtype=float)[some] - column.to_numpy()[some]
            squares.append((apart / column.std()) ** 2)
        else:
            ours = filled[name].astype(str).to_numpy()[some]
            wrong.append(ours != column.astype(str).to_numpy()[some])
    return float(np.sqrt(np.concatenate(squares).mean())), float(np.concatenate(wrong).mean())


def famd(table: pd.DataFrame, n_components: int = 2, n_iter: int = 200) -> pd.DataFrame:
    """Fill holes by regularised iterative FAMD, as `imputeFAMD` of R's missMDA does.

    Numbers are in standard units, and one-hot columns are divided by the root of their share. A PCA
    whose singular values are shrunk by the noise fills the holes (Audigier, Husson and Josse 2016).
    """
    numbers = as_numbers(table)
    X, seen = numbers.to_numpy(), numbers.notna().to_numpy()
    hot = np.array([str(name).startswith("cultivar") for name in numbers])
    filled = np.where(seen, X, np.nanmean(X, axis=0))
    for _ in range(n_iter):
        mean = filled.mean(axis=0)
        scale = np.where(hot, np.sqrt(np.maximum(mean, 1e-9)), filled.std(axis=0))
        U, s, Vt = np.linalg.svd((filled - mean) / scale, full_matrices=False)
        noise = (s[n_components:] ** 2).mean()
        shrunk = (s[:n_components] ** 2 - noise) / s[:n_components]
        fit = (U[:, :n_components] * shrunk) @ Vt[:n_components] * scale + mean
        filled = np.where(seen, X, fit)
    return from_numbers(pd.DataFrame(filled, columns=numbers.columns), table)


def wine() -> None:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    def ours(table: pd.DataFrame) -> pd.DataFrame:
        return GeneralizedPCA().fit(table).impute(table)

    def ours_by_means(table: pd.DataFrame) -> pd.DataFrame:
        """Fill counts with their means, as the peers do; `impute` gives whole numbers."""
        model = GeneralizedPCA().fit(table)
        means = pd.DataFrame(model.predict_cells(table), columns=model.output_names_)
        filled = model.impute(table)
        for name in (name for name, kind in model.likelihoods_.items() if kind in COUNTS):
            filled[name] = table[name].where(table[name].notna(), means[name])
        return filled

    def by_draws(table: pd.DataFrame) -> pd.DataFrame:
        """Take counts as numbers, because the sampler has no likelihood for counts."""
        found = GeneralizedPCA().fit(table).likelihoods_
        numbers = {name: "normal" for name, kind in found.items() if kind in COUNTS}
        model = GeneralizedPCA(
            method="gibbs", likelihood=numbers, random_state=0, n_chains=1, n_warmup=100, thin=1
        )
        return model.fit(table).impute(table)

    def iterated(table: pd.DataFrame) -> pd.DataFrame:
        numbers = as_numbers(table)
        imputer = IterativeImputer(max_iter=20, random_state=0)
        return from_numbers(
            pd.DataFrame(imputer.fit_transform(numbers), columns=numbers.columns), table
        )

    def copula(table: pd.DataFrame) -> pd.DataFrame:
        from gcimpute.gaussian_copula import GaussianCopula

        # gcimpute fails on one-hot columns that add up to 1; the last follows from the others.
        numbers = as_numbers(table)
        few, kept = [0, 1, 3, 6, 11, 12], numbers.to_numpy()[:, :-1]
        levels = [j for j in range(kept.shape[1]) if j not in few]
        model = GaussianCopula(random_state=0)
        filled = model.fit_transform(X=kept, ordinal=levels, continuous=few)
        last = 1 - filled[:, -1] - filled[:, -2]
        return from_numbers(
            pd.DataFrame(np.column_stack([filled, last]), columns=numbers.columns), table
        )

    def forest(table: pd.DataFrame) -> pd.DataFrame:
        from missforest import MissForest

        numbers = as_numbers(table.drop(columns="cultivar"))
        numbers["cultivar"] = table["cultivar"].cat.codes.astype(float).replace(-1, np.nan)
        levels = ["cultivar", *(c for c in table if table[c].dtype != float and c != "cultivar")]
        with contextlib.redirect_stderr(io.StringIO()):
            filled = MissForest(categorical=levels, verbose=0).fit_transform(numbers)
        kinds = np.array(list(table["cultivar"].cat.categories))
        out = from_numbers(filled.drop(columns="cultivar"), table.drop(columns="cultivar"))
        return out.assign(cultivar=kinds[filled["cultivar"].astype(int)])

    ways = {
        "GeneralizedPCA": ours,
        "GeneralizedPCA, counts by their means": ours_by_means,
        "GeneralizedPCA, draws, counts as numbers": by_draws,
        "IterativeImputer, one-hot": iterated,
        "regularised iterative FAMD, 2 components": famd,
    }
    if find_spec("gcimpute") is not None:
        ways["gcimpute, one-hot"] = copula
    if find_spec("missforest") is not None:
        ways["missforest"] = forest
    heading(
        "Wine with ranks, counts, flags and categories, 20 % hidden: error of numbers, of levels"
    )
    for name, way in ways.items():
        found, start = [], time.process_time()
        for seed in range(SEEDS):
            full, hidden = mixed_wine(seed)
            flags = {c: object for c in full if full[c].dtype == bool}
            found.append(errors(way(full.astype(flags).mask(hidden)), full, hidden))
        seconds = (time.process_time() - start) / SEEDS
        mean = np.mean(found, axis=0)
        print(
            f"    {name}: {mean[0]:.4f}, {100 * mean[1]:.2f} %, {seconds:.2f} s of CPU", flush=True
        )


def cut_table(name: str, seed: int, n: int = 300, p: int = 24) -> tuple[pd.DataFrame, np.ndarray]:
    """Part of a real table with some columns cut into levels, and the mask of hidden cells.

    Every third column is cut into four ranks, and every sixth into flags.
    """
    rng = np.random.default_rng(100 + seed)
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / f"{name}.npz") as file:
        X = np.asarray(file["X"], float)
    X = X[rng.permutation(len(X))[:n]]
    X = X[:, X.std(axis=0) > 0]
    X = X[:, np.sort(rng.permutation(X.shape[1])[:p])]
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j, x in enumerate(X.T):
        ranks = np.digitize(x, np.unique(np.quantile(x, [0.25, 0.5, 0.75])))
        above = x > np.median(x)
        if j % 3 == 0 and np.unique(ranks).size > 2:
            names = list("abcd")[: ranks.max() + 1]
            table[f"x{j}"] = pd.Categorical.from_codes(ranks, names, ordered=True)
        elif j % 6 == 1 and min(above.sum(), (~above).sum()) > 20:
            table[f"x{j}"] = above
    return table, rng.random(table.shape) < 0.2


def cut_tables(seeds: int = 3) -> None:
    """Compare with gcimpute, `IterativeImputer` and FAMD on real tables with cut columns."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    def ours(table: pd.DataFrame, **options: Any) -> pd.DataFrame:
        numbers = {name: "normal" for name in table if table[name].dtype == float}
        return GeneralizedPCA(likelihood=numbers, **options).fit(table).impute(table)

    def by_draws(table: pd.DataFrame) -> pd.DataFrame:
        return ours(table, method="gibbs", random_state=0, n_chains=1, n_warmup=100, thin=1)

    def iterated(table: pd.DataFrame) -> pd.DataFrame:
        numbers = as_numbers(table)
        filled = IterativeImputer(max_iter=20, random_state=0).fit_transform(numbers)
        return from_numbers(pd.DataFrame(filled, columns=numbers.columns), table)

    def copula(table: pd.DataFrame) -> pd.DataFrame:
        from gcimpute.gaussian_copula import GaussianCopula

        numbers = as_numbers(table)
        continuous = [j for j, name in enumerate(table) if table[name].dtype == float]
        levels = [j for j in range(numbers.shape[1]) if j not in continuous]
        model = GaussianCopula(random_state=0)
        filled = model.fit_transform(X=numbers.to_numpy(), ordinal=levels, continuous=continuous)
        return from_numbers(pd.DataFrame(filled, columns=numbers.columns), table)

    ways: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
        "GeneralizedPCA": ours,
        "GeneralizedPCA, draws": by_draws,
        "IterativeImputer": iterated,
        "FAMD, 2 components": famd,
    }
    if find_spec("gcimpute") is not None:
        ways["gcimpute"] = copula
    heading("Real tables with columns cut into ranks and flags: error of numbers, of levels")
    for name in ("wine", "glass", "segment", "satellite", "letter", "chart", "oilflow"):
        for label, way in ways.items():
            found, start = [], time.process_time()
            for seed in range(seeds):
                full, hidden = cut_table(name, seed)
                flags = {c: object for c in full if full[c].dtype == bool}
                found.append(errors(way(full.astype(flags).mask(hidden)), full, hidden))
            seconds = (time.process_time() - start) / seeds
            mean = np.mean(found, axis=0)
            what = f"{mean[0]:.3f}, {100 * mean[1]:.1f} %, {seconds:.2f} s of CPU"
            print(f"    {name}, {label}: {what}", flush=True)


def count_table() -> None:
    """Print the rank found in counts of rank 5, and the deviance of hidden cells."""
    rng = np.random.default_rng(0)
    Z = 0.4 * rng.normal(size=(500, 5)) @ rng.normal(size=(5, 200)) + rng.normal(size=200)
    X = rng.poisson(np.exp(Z)).astype(float)
    hidden = rng.random(X.shape) < 0.1
    heading("Poisson counts of rank 5, 500×200, a tenth hidden: rank, deviance of hidden cells")
    start = time.process_time()
    Y = np.where(hidden, np.nan, X)
    model = GeneralizedPCA(likelihood="poisson").fit(Y)
    seconds = time.process_time() - start
    ours, truth = deviance(X, model.predict_cells(Y), hidden), deviance(X, np.exp(Z), hidden)
    print(
        f"    rank {model.n_components_}, deviance {ours:.4f} (truth {truth:.4f}), {seconds:.1f} s"
    )


def thinned() -> None:
    """Print the deviance of a tenth of each count of `count_table`, under rates from the rest.

    glmpca cannot read holes, so the comparison sets part of each count aside instead.
    """
    rng = np.random.default_rng(0)
    Z = 0.4 * rng.normal(size=(500, 5)) @ rng.normal(size=(5, 200)) + rng.normal(size=200)
    X = rng.poisson(np.exp(Z))
    aside = rng.binomial(X, 0.1)
    everything = np.ones(X.shape, dtype=bool)
    heading("Poisson counts of rank 5, 500×200, a tenth of each count set aside: its deviance")
    start = time.process_time()
    model = GeneralizedPCA(likelihood="poisson").fit((X - aside).astype(float))
    rate = model.predict_cells((X - aside).astype(float)) / 9
    seconds = time.process_time() - start
    ours, truth = deviance(aside, rate, everything), deviance(aside, 0.1 * np.exp(Z), everything)
    print(
        f"    rank {model.n_components_} in {model.n_iter_} sweeps, {ours:.4f} "
        f"(truth {truth:.4f}), {seconds:.2f} s of CPU"
    )
    if find_spec("glmpca") is not None:
        _glmpca(X, aside, everything)
    if find_spec("bipca") is not None:
        _bipca(X - aside)


def _glmpca(X: np.ndarray, aside: np.ndarray, everything: np.ndarray) -> None:
    from glmpca.glmpca import glmpca

    start = time.process_time()
    found = glmpca((X - aside).T, 5, fam="poi")
    seconds = time.process_time() - start
    # The size factors of glmpca are the logarithms of the samples' mean counts.
    offset = np.log((X - aside).mean(axis=1))[:, None]
    rate = np.exp(found["coefX"][:, 0] + found["factors"] @ found["loadings"].T + offset) / 9
    print(f"    glmpca, 5 components: {deviance(aside, rate, everything):.4f}, {seconds:.2f} s")


def _bipca(X: np.ndarray) -> None:
    from bipca import BiPCA

    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        rank = int(BiPCA(verbose=0).fit(X.astype(float)).mp_rank)
    print(f"    bipca: rank {rank}, {time.process_time() - start:.2f} s")


def deviance(X: np.ndarray, rate: np.ndarray, hidden: np.ndarray) -> float:
    from scipy.special import xlogy

    x, rate = X[hidden], rate[hidden]
    return float(2 * np.mean(xlogy(x, np.where(x > 0, x / rate, 1.0)) - (x - rate)))


def main() -> None:
    warnings.simplefilter("ignore")
    count_table()
    thinned()
    wine()
    cut_tables()
    recovered()


if __name__ == "__main__":
    main()

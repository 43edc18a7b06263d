"""Ratings: error and CPU time on MovieLens, against myFM, SMURFF and cmfrec.

The ratings are those of ml-100k in recbole's wheel (RECBOLE_WHEEL), or of a file (RATINGS_FILE) in
any format that `bayespca ratings` reads. A last part times a sweep over ten million ratings.
"""

from __future__ import annotations

import itertools
import os
import resource
import time
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ranking
from timing import heading, line

from bayespca import MatrixFactorization, io

INSIDE = "recbole/dataset_example/ml-100k/ml-100k.inter"
Cells = tuple[np.ndarray, np.ndarray, np.ndarray]
# Maps known cells, users and items to predictions and their spread, or None without a spread.
Recommender = Callable[[Cells, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]


RANKERS: dict[str, ranking.Ranker] = {
    "evb": partial(ranking.ours, "evb"),
    "gibbs": partial(ranking.ours, "gibbs"),
    "gibbs, not implicit": partial(ranking.ours, "gibbs", implicit=False),
    "cmfrec": ranking.by_cmfrec,
    "implicit": ranking.by_implicit,
    "most rated": ranking.popular,
}


def movielens() -> Cells | None:
    """Users and items numbered from 0, and ratings."""
    return _read(_numbered)


def movielens_times() -> np.ndarray | None:
    """Times at which the ratings of `movielens` were given."""
    return _read(lambda path: np.asarray(io.read_ratings(path, times=True).times, np.float64))


def _read(reading: Callable[[Path], Any]) -> Any:
    if path := os.environ.get("RATINGS_FILE"):
        return reading(Path(path))
    wheel = os.environ.get("RECBOLE_WHEEL")
    if not wheel:
        return None
    with TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        return reading(Path(archive.extract(INSIDE, folder)))


def _numbered(path: Path) -> Cells:
    table = io.read_ratings(path)
    users, items = (np.unique(ids, return_inverse=True)[1] for ids in (table.users, table.items))
    return users, items, np.asarray(table.ratings, dtype=np.float64)


def ours(method: str, cells: Cells, users: np.ndarray, items: np.ndarray) -> tuple:
    model = MatrixFactorization(method, random_state=0).fit_ratings(*cells)
    print(f"        rank {model.n_components_}, {model.n_iter_} sweeps")
    return model.predict(users, items, return_std=True)


def features() -> dict[str, Any] | None:
    """Age, gender and occupation of users, genres and year of items, in the order of their ids."""
    import pandas as pd

    wheel = os.environ.get("RECBOLE_WHEEL")
    if not wheel or os.environ.get("RATINGS_FILE"):
        return None
    tables = []
    with zipfile.ZipFile(wheel) as archive:
        for ending in ("user", "item"):
            with archive.open(INSIDE.replace(".inter", f".{ending}")) as file:
                table = pd.read_csv(file, sep="\t", index_col=0).sort_index()
            table.columns = [name.partition(":")[0] for name in table.columns]
            tables.append(table.reset_index(drop=True))
    users, items = tables
    ages = pd.cut(users["age"], [0, 18, 25, 35, 45, 56, 99], right=False).astype(str)
    year = pd.to_numeric(items["release_year"], errors="coerce").fillna(1995)
    edges = [0, 1950, 1970, 1980, 1990, 1994, 1996, 1997, 2100]
    years = pd.cut(year, edges, right=False).astype(str)
    return {
        "user_features": pd.concat([ages, users[["gender", "occupation"]]], axis=1),
        "item_features": pd.concat([items["class"].str.get_dummies(" "), years], axis=1),
    }


def with_features(
    known: dict[str, Any], cells: Cells, users: np.ndarray, items: np.ndarray
) -> tuple:
    model = MatrixFactorization("gibbs", random_state=0).fit_ratings(*cells, **known)
    return model.predict(users, items, return_std=True)


def by_myfm(cells: Cells, users: np.ndarray, items: np.ndarray) -> tuple:
    import myfm
    import scipy.sparse as sp

    n, m = cells[0].max() + 1, cells[1].max() + 1

    def one_hot(i: np.ndarray, j: np.ndarray) -> sp.csr_matrix:
        rows = np.repeat(np.arange(i.size), 2)
        columns = np.column_stack([np.minimum(i, n - 1), n + np.minimum(j, m - 1)]).ravel()
        return sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(i.size, n + m))

    machine = myfm.MyFMRegressor(rank=10, random_seed=0)
    groups = [n, m]
    machine.fit(one_hot(*cells[:2]), cells[2], n_iter=200, group_shapes=groups)
    return machine.predict(one_hot(users, items)), None


def by_smurff(cells: Cells, users: np.ndarray, items: np.ndarray) -> tuple:
    """Fit SMURFF with myFM's numbers of components and sweeps; it has no mean, so subtract it."""
    import scipy.sparse as sp
    import smurff

    i, j, x = cells
    shape = (max(i.max(), users.max()) + 1, max(j.max(), items.max()) + 1)
    mean = x.mean()
    session = smurff.TrainSession(
        num_latent=10, burnin=20, nsamples=180, seed=1, num_threads=2, verbose=0
    )
    session.addTrainAndTest(
        sp.coo_matrix((x - mean, (i, j)), shape=shape),
        sp.coo_matrix((np.ones(users.size), (users, items)), shape=shape),
        smurff.AdaptiveNoise(1.0, 10.0),
    )
    # SMURFF shows a progress bar even with verbose=0.
    with redirect_stderr(StringIO()):
        found = {tuple(one.coords): one.pred_avg for one in session.run()}
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return mean + np.array([found[pair] for pair in pairs]), None


def by_cmfrec(cells: Cells, users: np.ndarray, items: np.ndarray) -> tuple:
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame(dict(zip(("UserId", "ItemId", "Rating"), cells, strict=True)))
    model = CMF(k=10, verbose=False, nthreads=2).fit(frame)
    return model.predict(users, items), None


def five_folds(cells: Cells, recommenders: dict[str, Recommender]) -> None:
    heading(f"{cells[2].size:,} ratings, five folds: mean RMSE and CPU time of a fold")
    folds = np.array_split(np.random.default_rng(0).permutation(cells[2].size), 5)
    seconds = {}
    for name, recommender in recommenders.items():
        errors, covered, start = [], [], time.process_time()
        try:
            for k, test in enumerate(folds):
                train = np.concatenate([fold for g, fold in enumerate(folds) if g != k])
                known = tuple(column[train] for column in cells)
                mean, std = recommender(known, cells[0][test], cells[1][test])
                error = np.clip(mean, 1, 5) - cells[2][test]
                errors.append(np.sqrt(np.mean(error**2)))
                if std is not None:
                    covered.append(np.mean(np.abs(error) < 1.645 * std))
        except ImportError as absent:
            print(f"    {name}: {absent}")
            continue
        seconds[name] = (time.process_time() - start) / 5
        held = f", 90 % intervals hold {np.mean(covered):.1%}" if covered else ""
        print(f"    {name}: RMSE {np.mean(errors):.4f}, {seconds[name]:.2f} s{held}")
    if "myFM" in seconds:
        line("EVB's CPU over myFM's", f"{seconds['evb'] / seconds['myFM']:.2f}", "≤ 0.5")
        line("Gibbs sampling's CPU over myFM's", f"{seconds['gibbs'] / seconds['myFM']:.2f}", "≤ 1")


def combinations(cells: Cells, times: np.ndarray, known: dict[str, Any]) -> None:
    """Print five-fold errors of Gibbs sampling with and without `implicit`, features and times."""
    heading("What pays beside ratings: five folds, mean RMSE, intervals and CPU time of a fold")
    folds = np.array_split(np.random.default_rng(0).permutation(cells[2].size), 5)
    for implicit, featured, timed in itertools.product((False, True), repeat=3):
        errors, covered, start = [], [], time.process_time()
        for k, test in enumerate(folds):
            train = np.concatenate([fold for g, fold in enumerate(folds) if g != k])
            model = MatrixFactorization("gibbs", implicit=implicit, random_state=0)
            more = known if featured else {}
            when = [times[part] if timed else None for part in (train, test)]
            model.fit_ratings(*(column[train] for column in cells), times=when[0], **more)
            pairs = cells[0][test], cells[1][test]
            mean, std = model.predict(*pairs, return_std=True, times=when[1])
            errors.append(np.sqrt(np.mean((mean - cells[2][test]) ** 2)))
            covered.append(np.mean(np.abs(mean - cells[2][test]) < 1.645 * std))
        used = {"implicit": implicit, "features": featured, "times": timed}
        name = ", ".join(what for what, is_used in used.items() if is_used) or "ratings alone"
        seconds = (time.process_time() - start) / 5
        print(
            f"    {name}: RMSE {np.mean(errors):.4f}, {seconds:.1f} s, 90 % intervals hold "
            f"{np.mean(covered):.1%}"
        )


def ten_million() -> None:
    """Time a sweep at rank 10 over 70,000×10,000, against cmfrec's alternating least squares."""
    from bayespca.missing.ratings.data import sorted_both_ways
    from bayespca.missing.ratings.fit import ratings_model
    from bayespca.spectrum.methods import METHODS

    rng, (n, m, rank) = np.random.default_rng(0), (70_000, 10_000, 10)
    cells = np.unique(rng.integers(0, n * m, 10_100_000))[:10_000_000]
    i, j = (cells // m).astype(np.int32), (cells % m).astype(np.int32)
    A, B = rng.normal(size=(n, rank)), rng.normal(size=(m, rank))
    x = np.einsum("ch,ch->c", A[i], B[j]) + rng.normal(size=i.size)
    heading(f"{i.size:,} ratings, {n:,}×{m:,}, rank {rank}: CPU time of a sweep")
    data = sorted_both_ways(i, j, x, (n, m), center=True)
    taken = {}
    for method in ("evb", "epb", "emap"):
        model = ratings_model(data, METHODS[method], n_components=rank, noise_variance=1.0)
        state, _ = model.step(model.start(data, rng), data)
        begin = time.process_time()
        for _ in range(3):
            state, _ = model.step(state, data)
        taken[method] = (time.process_time() - begin) / 3
        print(f"    {method}: {taken[method]:.2f} s")
    for name, implicit in (("gibbs", False), ("gibbs with implicit", True)):
        own = gibbs_sweep(data, rank, implicit=implicit)
        print(f"    {name}: {own:.2f} s")
        line(f"a sweep of {name} over EVB's", f"{own / taken['evb']:.2f}", "≤ 2")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    line("peak memory, data included", f"{peak:.1f} GB", "≤ 3")
    try:
        import scipy.sparse as sp
        from cmfrec import CMF
    except ImportError as absent:
        print(f"    cmfrec: {absent}")
        return
    matrix = sp.coo_matrix((x, (i, j)), shape=(n, m))
    times = []
    for sweeps_made in (1, 4):
        begin = time.process_time()
        CMF(k=rank, niter=sweeps_made, use_cg=False, verbose=False, nthreads=2).fit(matrix)
        times.append(time.process_time() - begin)
    print(f"    cmfrec: {(times[1] - times[0]) / 3:.2f} s")


def cold_start(cells: Cells, known: dict[str, Any]) -> None:
    """Print the RMSE for a tenth of the users, or of the items, none of whose ratings is known."""
    heading("ratings of a tenth of the users or items, all of them held out")
    rng = np.random.default_rng(0)
    for what, own, other in (("items", cells[1], cells[0]), ("users", cells[0], cells[1])):
        gone = rng.permutation(own.max() + 1)[: (own.max() + 1) // 10]
        test = np.isin(own, gone)
        train = tuple(column[~test] for column in cells)
        pairs, stars = (cells[0][test], cells[1][test]), cells[2][test]
        mean, std = with_features(known, train, *pairs)
        counts = np.bincount(other[~test], minlength=other.max() + 1)
        means = np.bincount(other[~test], train[2], other.max() + 1) / np.maximum(counts, 1)
        found = {
            "with features": mean,
            "without": MatrixFactorization("gibbs", random_state=0)
            .fit_ratings(*train)
            .predict(*pairs),
            "means of the other side": means[other[test]],
        }
        errors = (
            f"{name} {np.sqrt(np.mean((guess - stars) ** 2)):.4f}" for name, guess in found.items()
        )
        held = np.mean(np.abs(mean - stars) < 1.645 * std)
        print(f"    {what}: {', '.join(errors)}; 90 % intervals hold {held:.1%}")


def gibbs_sweep(data: Any, rank: int, *, implicit: bool) -> float:
    """Mean CPU time over three sweeps of one chain, with noise variances of users and items."""
    from bayespca.missing.ratings.fit import ratings_model
    from bayespca.missing.sampled.data import with_features
    from bayespca.missing.sampled.fit import SampledModel

    data, rng = with_features(data, implicit=implicit), np.random.default_rng(0)
    begun = ratings_model(data, n_components=rank)
    model = SampledModel(begun=begun, rank=rank, n_chains=1, n_warmup=10)
    state = model.lent(begun.start(data, rng)).start(data, rng)
    state, _ = model.step(state, data)
    begin = time.process_time()
    for _ in range(3):
        state, _ = model.step(state, data)
    return (time.process_time() - begin) / 3


def main() -> None:
    cells = movielens()
    if cells is None:
        print("ratings: set RATINGS_FILE, or RECBOLE_WHEEL to the wheel of recbole")
    else:
        mine = {method: partial(ours, method) for method in ("evb", "epb", "emap", "gibbs")}
        if (known := features()) is not None:
            mine["gibbs with features"] = partial(with_features, known)
        five_folds(cells, {**mine, "myFM": by_myfm, "SMURFF": by_smurff, "cmfrec": by_cmfrec})
        if known is not None:
            combinations(cells, movielens_times(), known)
            cold_start(cells, known)
        ranking.first_ten(cells, RANKERS)
    ten_million()


if __name__ == "__main__":
    main()

"""Noise that differs between cells: heavy tails, gross errors and known errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import multivariate_t
from scipy.stats import t as student_t

from bayespca import BayesianPCA, inference, load
from bayespca.inference.checkpoint import Checkpoint
from bayespca.lowrank import holes_posterior, imputing
from bayespca.lowrank.cells import best_cells, given_cells
from bayespca.lowrank.noise_models import BOTH, ISOTROPIC, PER_FEATURE, PER_SAMPLE, STUDENT_CELLS
from bayespca.lowrank.rows import latent
from bayespca.missing.dense.fit import fit
from bayespca.missing.dense.state import DenseState
from bayespca.missing.dense.step import step
from bayespca.sources.checks import UnusableData
from bayespca.spectrum.forms import ClosedForm
from oracles.holes import free_energy

from .sweeping import asked, swept


def low_rank(n, p, rank, strength=0.6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rank)) @ (strength * rng.normal(size=(rank, p))), rng


def with_holes(X, rng, share=0.1):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def heavy(n, p, rank, seed=0, **options):
    """Low-rank data with holes and t-distributed noise: 3 degrees of freedom, variance 1."""
    L, rng = low_rank(n, p, rank, seed=seed, **options)
    return with_holes(L + rng.standard_t(3, (n, p)) / np.sqrt(3), rng)


def gross(n, p, rank, seed=0):
    """Low-rank part, mask of the 1 % of cells with gross errors, and data with holes."""
    L, rng = low_rank(n, p, rank, seed=seed)
    wrong = rng.random((n, p)) < 0.01
    X = L + rng.normal(size=(n, p)) + 10 * wrong * rng.normal(size=(n, p))
    return L, wrong, with_holes(X, rng)


def fitted(Y, noise=STUDENT_CELLS, *, tol=1e-9, **options):
    form = ClosedForm(noise_variance=options.pop("noise_variance", "auto"))
    return fit(Y, form, inference.Looping(max_iter=3000, tol=tol), noise=noise, **options)


# --- the free energy ---------------------------------------------------------------------------


def defined_energy(state, data):
    """Free energy written out: the oracle's for unit weights, plus the change by the weights."""
    scales, n = state.scales, data.shape[0]
    weighted = scales.applied(data)
    if scales.root is not None:
        weighted = replace(weighted, values=weighted.values / scales.root)
    a, a_cov = latent(weighted, state.columns())
    X = np.where(data.mask, data.values, np.nan)
    moments = (a, a_cov, state.b, state.b_cov, state.prior_a, state.prior_b)
    total = free_energy(X, *moments, state.noise_variance, columns=scales.columns)
    share, H, s2 = (n - 1) / n, state.rank, state.noise_variance
    for i, j in np.argwhere(data.mask):
        ones = np.append(a[i], 1.0)
        A2 = np.outer(ones, ones)
        A2[:H, :H] += share * a_cov[i]
        B2 = state.b_cov[j] + np.outer(state.b[j], state.b[j])
        x = data.values[i, j] * (1.0 if scales.root is None else 1 / scales.root[j])
        square = x**2 - 2 * x * ones @ state.b[j] + np.sum(A2 * B2)
        total += 0.5 * (scales.cells.precision[i, j] - 1) * square / s2
    return float(total + of_gammas(scales.cells, data.known, data.mask))


def of_gammas(cells, known, seen):
    """½Σ⟨log 1/τ⟩ + ΣKL(Gamma(α + ½, rate) ‖ Gamma(α, β)), summed over cells."""
    known = np.ones(seen.shape) if known is None else known
    tau = cells.precision[seen] / known[seen]
    total = -0.5 * np.log(known[seen]).sum()
    if np.isinf(cells.shape):
        return total
    alpha, beta = cells.shape, cells.rate
    shape = alpha + 0.5
    rate = shape / tau
    logs = np.log(rate) - digamma(shape)
    divergence = 0.5 * digamma(shape) - gammaln(shape) + gammaln(alpha)
    divergence = divergence + alpha * np.log(rate / beta) + shape * (beta / rate - 1)
    return total + 0.5 * logs.sum() + divergence.sum()


def test_the_free_energy_is_the_defined_one():
    run, _, data = swept(heavy(40, 7, 2, strength=3.0), noise=STUDENT_CELLS, tol=1e-13)
    assert run.state.rank > 0
    assert np.isfinite(run.state.scales.cells.shape)
    assert run.free_energy == pytest.approx(defined_energy(run.state, data), rel=1e-7)


def test_weights_are_at_a_minimum():
    """Weights and their prior minimise the marginal energy of Student's t over observed cells."""
    rng = np.random.default_rng(0)
    squares = rng.standard_t(4, (200, 30)) ** 2
    seen = rng.random(squares.shape) < 0.8
    found = best_cells(squares.copy(), seen, given_cells(seen.astype(float)))
    assert found.shape == pytest.approx(2.0, rel=0.15)
    assert (found.precision[~seen] == 0).all()

    def value(alpha, beta):
        constant = gammaln(alpha + 0.5) - gammaln(alpha) + alpha * np.log(beta)
        return np.sum((alpha + 0.5) * np.log(beta + 0.5 * squares[seen]) - constant)

    least = found.energy + 0.5 * np.sum(found.precision * squares)
    assert least == pytest.approx(value(found.shape, found.rate), rel=1e-10)
    for alpha, beta in rng.normal(0, 0.03, (20, 2)):
        assert value(found.shape * np.exp(alpha), found.rate * np.exp(beta)) > least - 0.05


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_free_energy_never_rises(seed, holes):
    """The loop warns of a rise, and warnings are errors here."""
    L, rng = low_rank(*np.random.default_rng(seed).integers(5, 40, 2), 2, seed=seed)
    Y = with_holes(L + rng.standard_t(2, L.shape), rng, holes)
    errors = np.exp(0.5 * rng.normal(size=L.shape)) if seed % 2 else None
    for noise in (STUDENT_CELLS, replace(STUDENT_CELLS, rows=True)):
        found = fitted(Y, noise, error_std=errors)
        assert (np.diff(found.trace.free_energy) <= 1e-9 * np.abs(found.free_energy)).all()


def test_counts_do_not_break_it():
    """Many equal values drive the tails to become ever heavier."""
    rng = np.random.default_rng(0)
    Y = rng.poisson(rng.gamma(1, 1, (100, 2)) @ rng.gamma(0.3, 1, (2, 12))).astype(float)
    assert np.isfinite(fitted(Y, tol=1e-7).free_energy)


# --- known truth -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p", "rank"), [(300, 20, 3), (200, 60, 4)])
def test_heavy_tails(n, p, rank):
    Y = heavy(n, p, rank)
    found, plain = fitted(Y, tol=1e-8), fitted(Y, PER_FEATURE, tol=1e-8)
    assert found.n_components == rank
    assert 2.5 < found.noise.degrees_of_freedom < 6
    assert found.free_energy < plain.free_energy - 100


@pytest.mark.parametrize(("n", "p", "rank"), [(300, 20, 3), (200, 60, 4)])
def test_gross_errors_hardly_count(n, p, rank):
    L, wrong, Y = gross(n, p, rank)
    found = fitted(Y, tol=1e-8)
    assert found.n_components == rank
    large = wrong & (np.abs(Y - L) > 8)
    assert large.sum() > 10
    assert found.noise.outliers.shape == Y.shape
    assert found.noise.outliers[large].mean() > 0.8
    assert found.noise.outliers[~wrong].mean() < 0.01


def low_rank_part(found, Y):
    posterior = found.posterior
    return holes_posterior.reconstruct(posterior, holes_posterior.scores(posterior, Y))


def test_normal_noise_is_found_to_be_normal():
    L, rng = low_rank(150, 12, 2, strength=0.8)
    Y = with_holes(L + rng.normal(size=L.shape), rng)
    found, plain = fitted(Y), fitted(Y, ISOTROPIC)
    assert found.n_components == plain.n_components == 2
    assert found.free_energy == pytest.approx(plain.free_energy, abs=0.2)
    assert found.noise.degrees_of_freedom > 50


# --- known errors ------------------------------------------------------------------------------


def measured(n=200, p=15, seed=0):
    """Low-rank part, the known standard error of each cell, and data with holes."""
    L, rng = low_rank(n, p, 2, seed=seed)
    S = np.exp(0.8 * rng.normal(size=(n, p)))
    return L, S, with_holes(L + S * rng.normal(size=(n, p)), rng)


def test_known_errors_bring_the_low_rank_part_nearer():
    L, S, Y = measured()
    found, plain = fitted(Y, ISOTROPIC, error_std=S), fitted(Y, ISOTROPIC)
    assert found.n_components == 2
    assert found.free_energy < plain.free_energy - 100
    error, without = trained(found, Y, S) - L, low_rank_part(plain, Y) - L
    assert np.mean(error**2) < 0.7 * np.mean(without**2)
    assert found.noise_variance == pytest.approx(1.0, rel=0.1)


def trained(found, Y, S):
    """Low-rank part of the training rows, with cells weighted by their known errors."""
    posterior = found.posterior
    scale = np.asarray(posterior.scale) * posterior.unit
    out = np.empty_like(Y)
    columns, k = posterior.columns, posterior.components.shape[0]
    second = columns.second[:, :k, :k]
    usual = np.exp(np.log(S[~np.isnan(Y)]).mean())
    for i, row in enumerate(Y):
        j = ~np.isnan(row)
        g = (usual / S[i, j]) ** 2
        z = (row[j] - posterior.mean[j]) / scale[j]
        gram = np.einsum("j,jhk->hk", g, second[j])
        gram += columns.noise_variance * np.diag(1 / columns.prior_a)
        a = np.linalg.solve(gram, (g * z) @ columns.b[j, :k])
        out[i] = posterior.mean + scale * (columns.b[:, :k] @ a)
    return out


def test_equal_errors_are_no_errors():
    _, _, Y = measured()
    found, plain = fitted(Y, PER_FEATURE, error_std=np.full(Y.shape, 3.0)), fitted(Y, PER_FEATURE)
    assert found.free_energy == pytest.approx(plain.free_energy, rel=1e-9)


def test_errors_of_columns_are_their_units():
    """Known errors t of columns act like units: F rises by Σⱼ(nⱼ − 1)·log tⱼ."""
    L, rng = low_rank(100, 10, 2, strength=1.0)
    t = np.exp(rng.normal(size=10))
    Y = with_holes(t * (L + rng.normal(size=L.shape)), rng)
    found = fitted(Y, ISOTROPIC, error_std=np.broadcast_to(t, Y.shape))
    plain = fitted(Y / t, ISOTROPIC)
    cells = (~np.isnan(Y)).sum(axis=0) - 1
    assert found.n_components == plain.n_components == 2
    assert found.free_energy == pytest.approx(plain.free_energy + cells @ np.log(t), rel=1e-8)


def test_errors_of_rows_and_columns_together():
    L, rng = low_rank(120, 10, 2, strength=1.0)
    S = np.exp(0.7 * rng.normal(size=(120, 1))) * np.exp(0.7 * rng.normal(size=(1, 10)))
    Y = with_holes(L * S + S * rng.normal(size=L.shape), rng)
    given, both = fitted(Y, ISOTROPIC, error_std=S), fitted(Y, BOTH)
    assert given.n_components == both.n_components == 2
    assert given.free_energy < both.free_energy
    known = fitted(Y, BOTH, error_std=S)
    assert known.free_energy == pytest.approx(given.free_energy, abs=0.5)


@pytest.mark.parametrize("noise", [ISOTROPIC, BOTH], ids=lambda model: model.name)
def test_without_holes_known_errors_are_those_of_complete_data(noise):
    L, rng = low_rank(120, 10, 2, strength=1.0)
    S = np.exp(0.7 * rng.normal(size=(120, 1)) + 0.7 * rng.normal(size=(1, 10)))
    X = S * (L + rng.normal(size=L.shape))
    whole = BayesianPCA(noise=noise.name, tol=1e-12, max_iter=5000).fit(X, error_std=S)
    found = fitted(X, noise, error_std=S, tol=1e-12)
    assert found.n_components == whole.n_components_ == 2
    # Equal variances drive their prior to its narrowest allowed width, which costs 2e-4.
    assert found.free_energy == pytest.approx(whole.free_energy_, abs=1e-3)
    assert found.noise_variance == pytest.approx(whole.noise_variance_, rel=1e-3)
    np.testing.assert_allclose(found.noise.samples, whole.sample_noise_variance_, rtol=0.02)


def test_noise_variance_is_that_of_unit_errors():
    _, S, Y = measured()
    free = fitted(Y, ISOTROPIC, error_std=S)
    fixed = fitted(Y, ISOTROPIC, error_std=S, noise_variance=1.0)
    assert fixed.free_energy >= free.free_energy
    assert fixed.noise_variance == pytest.approx(1.0)


def test_an_infinite_error_is_a_hole():
    _, S, Y = measured(60, 8)
    hole = np.random.default_rng(1).random(Y.shape) < 0.1
    found = fitted(Y, ISOTROPIC, error_std=np.where(hole, np.inf, S))
    wanted = fitted(np.where(hole, np.nan, Y), ISOTROPIC, error_std=S)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)


# --- the rest ----------------------------------------------------------------------------------


def test_a_run_that_was_broken_off_goes_on(tmp_path):
    model, table = asked(heavy(60, 8, 2), noise=STUDENT_CELLS)
    once, _ = step(model.start(table, np.random.default_rng(0)), table.rows, model)
    kept = Checkpoint(tmp_path / "run", DenseState, fingerprint="", every=0.0)
    kept.keep(inference.Run(once, inference.Trace.empty()))
    assert step(kept.find().state, table.rows, model)[1] == step(once, table.rows, model)[1]


def test_arrays_of_torch():
    torch = pytest.importorskip("torch")
    Y = heavy(60, 8, 2)
    found, here = fitted(torch.asarray(Y)), fitted(Y)
    assert found.free_energy == pytest.approx(here.free_energy, rel=1e-10)
    assert isinstance(found.posterior.components, torch.Tensor)


def test_workers_say_what_they_cannot_do():
    da = pytest.importorskip("dask.array")
    from bayespca.sources.partitions import partitioned

    with pytest.raises(UnusableData, match="'student-cells' is for data in memory"):
        fitted(partitioned(da.from_array(heavy(40, 6, 1), chunks=(20, 6))))


# --- reading a fit -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p", "rank"), [(300, 20, 3), (200, 60, 4)])
def test_scores_do_not_follow_gross_errors(n, p, rank):
    L, _, Y = gross(n, p, rank)
    errors = [
        np.mean((low_rank_part(fitted(Y, noise, tol=1e-8), Y) - L) ** 2)
        for noise in (STUDENT_CELLS, PER_FEATURE)
    ]
    assert errors[0] < 0.8 * errors[1]


def test_a_gross_error_moves_nothing():
    """A gross error changes scores no more than a hole in its place."""
    Y = heavy(300, 20, 3)
    posterior = fitted(Y).posterior
    row = np.nan_to_num(Y[:1])
    spoiled, hole = row.copy(), row.copy()
    spoiled[0, 5], hole[0, 5] = 1e6, np.nan
    scores = [holes_posterior.scores(posterior, x) for x in (row, spoiled, hole)]
    np.testing.assert_allclose(scores[1], scores[2], atol=1e-3)
    filled, _ = imputing.impute(posterior, hole)
    assert abs(filled[0, 5] - row[0, 5]) < 5


def test_held_out_cells_are_covered():
    L, rng = low_rank(400, 20, 3)
    X = L + rng.standard_t(5, L.shape)
    Y = with_holes(X, rng, 0.2)
    filled, std = imputing.impute(fitted(Y).posterior, Y)
    holes = np.isnan(Y)
    assert np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes]) == pytest.approx(0.95, abs=0.02)
    assert np.mean(((filled - X)[holes] / std[holes]) ** 2) == pytest.approx(1.0, abs=0.25)


def test_the_log_density_is_a_bound():
    """Compared with an average over scores drawn from the prior, for rows with few cells."""
    Y = heavy(200, 6, 1, strength=1.5)
    posterior = fitted(Y).posterior
    # As if loadings and means were known.
    known = replace(posterior.columns, b_cov=0 * posterior.columns.b_cov)
    posterior = replace(posterior, columns=known)
    rows = Y[:20]
    found = holes_posterior.log_density(posterior, rows)
    unit = posterior.unit * np.asarray(posterior.scale)
    rng, tails = np.random.default_rng(0), posterior.cell_tails
    k = known.rank
    a = rng.normal(size=(200_000, k)) * np.sqrt(known.prior_a)
    fit = a @ known.b[:, :k].T
    nu, size = 2 * tails.shape, np.sqrt(known.noise_variance * tails.rate / tails.shape)
    for row, bound in zip(rows, found, strict=True):
        j = ~np.isnan(row)
        z = (row[j] - posterior.mean[j]) / unit[j]
        logs = student_t.logpdf((z - fit[:, j]) / size, nu) - np.log(size * unit[j])
        exact = np.logaddexp.reduce(logs.sum(axis=1)) - np.log(len(a))
        assert exact - 1.0 < bound < exact + 0.05


def test_rows_of_their_own():
    """Student's t for rows: log densities are exact, and scores of noisy rows are less certain."""
    L, rng = low_rank(300, 15, 2, strength=1.0)
    sizes = np.exp(0.7 * rng.normal(size=300))
    X = (L + rng.normal(size=L.shape)) * sizes[:, None]
    Y = with_holes(X, rng, 0.15)
    found = fitted(Y, PER_SAMPLE)
    posterior = found.posterior
    tails = posterior.tails
    assert tails.are_heavy
    C = holes_posterior.covariance(posterior) / tails.spread
    density = holes_posterior.log_density(posterior, Y)
    for i in range(10):
        j = ~np.isnan(Y[i])
        shape = C[np.ix_(j, j)] * tails.rate / tails.shape
        law = multivariate_t(posterior.mean[j], shape, 2 * tails.shape)
        assert density[i] == pytest.approx(law.logpdf(Y[i, j]), rel=1e-9)
    _, std = holes_posterior.scores_and_std(posterior, Y)
    assert np.corrcoef(np.log(std[:, 0]), np.log(sizes))[0, 1] > 0.8
    filled, width = imputing.impute(posterior, Y)
    holes = np.isnan(Y)
    covered = np.abs(filled - X)[holes] < 1.96 * width[holes]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)
    drawn = holes_posterior.sample(posterior, 50_000, np.random.default_rng(0))
    middle = [np.median(np.abs(values - posterior.mean)) for values in (drawn, X)]
    assert middle[0] == pytest.approx(middle[1], rel=0.25)


@pytest.mark.parametrize("noise", ["per-sample", "student-cells"])
def test_a_model_can_be_saved(tmp_path, noise):
    Y = heavy(100, 10, 2)
    model = BayesianPCA(noise=noise).fit(Y)
    model.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    np.testing.assert_array_equal(again.impute(Y), model.impute(Y))
    np.testing.assert_array_equal(again.score_samples(Y), model.score_samples(Y))
    np.testing.assert_array_equal(again.outlier_probability_, model.outlier_probability_)


def agree(found, wanted):
    """Assert that arrays agree up to the signs of components."""
    mine = np.abs(found.numpy())
    np.testing.assert_allclose(mine, np.abs(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("noise", [PER_SAMPLE, STUDENT_CELLS], ids=lambda model: model.name)
def test_reading_arrays_of_torch(noise):
    torch = pytest.importorskip("torch")
    Y = heavy(60, 8, 2, strength=2.0)
    here, there = fitted(Y, noise).posterior, fitted(torch.asarray(Y), noise).posterior
    X = torch.asarray(Y)
    for name in ("scores", "log_density"):
        found, wanted = (getattr(holes_posterior, name)(*of) for of in ((there, X), (here, Y)))
        assert isinstance(found, torch.Tensor)
        agree(found, wanted)
    for of in (holes_posterior.scores_and_std, imputing.impute):
        pairs = (of(*given) for given in ((there, X), (here, Y)))
        for found, wanted in zip(*pairs, strict=True):
            assert isinstance(found, torch.Tensor)
            agree(found, wanted)
    drawn = imputing.sample_imputation(there, X, np.random.default_rng(0))
    assert not torch.isnan(drawn).any()

"""Separate noise variances for rows and columns of matrices with holes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.datasets import low_rank
from bayespca.inference.checkpoint import Checkpoint
from bayespca.lowrank import imputing
from bayespca.lowrank.noise_models import BOTH, ISOTROPIC, PER_FEATURE, PER_SAMPLE
from bayespca.lowrank.rows import latent
from bayespca.missing.dense.fit import fit
from bayespca.missing.dense.state import DenseState
from bayespca.missing.dense.step import step
from bayespca.sources.rounding import rounding_variances
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS
from oracles import scaled
from oracles.holes import free_energy

from .sweeping import asked, defined_energy, swept

MODELS = [PER_FEATURE, PER_SAMPLE, BOTH]
OWN = pytest.mark.parametrize("noise", MODELS, ids=lambda model: model.name)


def noisy(n, p, rank, *, rows=0.0, columns=0.0, strength=1.0, share=0.1, seed=0):
    """Data of known rank whose noise varies between rows and columns, with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ (strength * rng.normal(size=(rank, p)))
    sizes = np.exp(rows * rng.normal(size=(n, 1)) + columns * rng.normal(size=(1, p)))
    X += sizes * rng.normal(size=(n, p))
    return np.where(rng.random((n, p)) < share, np.nan, X)


def fitted(Y, noise, **options):
    looping = inference.Looping(max_iter=5000, tol=options.pop("tol", 1e-12))
    return fit(Y, ClosedForm(**options), looping, noise=noise)


@OWN
@pytest.mark.parametrize("center", [True, False])
def test_the_free_energy_is_the_defined_one(noise, center):
    """This holds at convergence, where rows no longer change."""
    Y = noisy(40, 7, 2, rows=0.7, columns=0.7, strength=3.0, share=0.2)
    run, model, data = swept(Y, noise=noise, center=center)
    assert run.state.rank > 0
    assert run.free_energy == pytest.approx(defined_energy(run.state, data, model), rel=1e-7)


@pytest.mark.parametrize("seed", [1])
def test_brute_force_finds_nothing_lower(seed):
    """One component, row and column noise: minimised from near the solution and from elsewhere."""
    Y = noisy(10, 5, 1, rows=0.5, columns=0.5, strength=10.0, seed=seed)
    found = fitted(Y, BOTH, n_components=1)
    assert found.n_components == 1
    run, _, data = swept(Y, noise=BOTH, n_components=1)
    X = np.where(data.mask, data.values * data.unit, np.nan)
    rng = np.random.default_rng(seed)
    begin = as_parameters(run.state, data)
    assert scaled.value(begin, X) == pytest.approx(written_out(begin, X), rel=1e-12)
    least = found.free_energy - 1e-6 * abs(found.free_energy)
    # The shapes of the gamma distributions move far and slowly, so brute force may end higher.
    assert least < scaled.least_free_energy(X, begin) < found.free_energy + 0.3
    assert least < scaled.least_free_energy(X, begin + 0.5 * rng.normal(size=begin.size))


def as_parameters(state, data):
    """Brute-force parameters of a one-component state, rescaled to a noise variance of 1."""
    state = state.at_unit_scale()
    scaled_data = state.scales.applied(data)
    scaled_data = replace(scaled_data, values=data.values / state.scales.root)
    a, a_cov = latent(scaled_data, state.columns())
    size = np.sqrt(state.noise_variance)
    b, roots = state.b / size, np.linalg.cholesky(state.b_cov / size**2)
    cholesky = np.r_[np.log(roots[:, 0, 0]), roots[:, 1, 0], np.log(roots[:, 1, 1])]
    rows, columns = state.scales.rows, state.scales.columns
    columns = columns.times(state.noise_variance)
    in_units = replace(columns, precision=columns.precision / data.unit**2)
    gammas = [gamma_parameters(scales) for scales in (rows, in_units)]
    a_var = a_cov[data.pattern, 0, 0]
    return np.r_[a[:, 0], np.log(a_var), b[:, 0], b[:, 1], cholesky, 0.0, *gammas]


def gamma_parameters(scales):
    """Logarithms of shapes 4, rates that give these mean precisions, and a Gamma(2, 2) prior."""
    shape = np.full(scales.precision.size, 4.0)
    return np.log(np.r_[shape, shape / scales.precision, 2.0, 2.0])


def written_out(theta, X):
    """The value of `scaled.value`, summed cell by cell."""
    a, s, b, mu, C, c2, rows, columns = scaled.parameters(theta, *X.shape)
    moments = (a[:, None], s[:, None, None], np.c_[b, mu], C, np.array([c2]), np.array([c2]))
    return free_energy(X, *moments, 1.0, rows=rows, columns=columns)


@OWN
@pytest.mark.parametrize(("n", "p"), [(60, 9), (25, 40)])
def test_without_holes_it_is_the_closed_form_of_scaled_data(noise, n, p):
    """The fit agrees with the oracle's alternation and with the fit of complete data."""
    X = noisy(n, p, 2, rows=0.6 * noise.rows, columns=0.6 * noise.columns, share=0.0)
    F, rank = scaled.alternated(X, rows=noise.rows, columns=noise.columns)
    found = fitted(X, noise)
    assert found.n_components == rank > 0
    assert found.free_energy == pytest.approx(F, rel=1e-7)
    whole = BayesianPCA(n_components="evb", noise=noise.name, max_iter=5000, tol=1e-13).fit(X)
    assert found.free_energy == pytest.approx(whole.free_energy_, abs=1e-5)
    assert found.noise_variance == pytest.approx(whole.noise_variance_, rel=0.01)
    close = {"rtol": 0.05}
    if noise.columns:
        np.testing.assert_allclose(found.noise.features, whole.feature_noise_variance_, **close)
    if noise.rows:
        np.testing.assert_allclose(found.noise.samples, whole.sample_noise_variance_, **close)
        np.testing.assert_allclose(found.noise.outliers, whole.outlier_probability_, atol=0.02)
        assert found.noise.degrees_of_freedom == pytest.approx(whole.degrees_of_freedom_, rel=0.05)


@OWN
@pytest.mark.parametrize(
    ("method", "options"), [("ml", {"n_components": 2}), ("vb", {"prior_variance": 2.0})]
)
def test_without_holes_other_methods_are_no_worse(noise, method, options):
    X = noisy(80, 10, 2, rows=0.6 * noise.rows, columns=0.6 * noise.columns, share=0.0)
    whole = BayesianPCA(method, noise=noise.name, max_iter=5000, tol=1e-12, **options).fit(X)
    found = fitted(X, noise, method=METHODS[method], **options)
    assert found.n_components == whole.n_components_
    assert found.free_energy < whole.free_energy_ + 1e-6
    assert found.free_energy > whole.free_energy_ - 5.0


@OWN
@pytest.mark.parametrize("seed", range(6))
def test_the_free_energy_never_rises(noise, seed):
    """The loop warns of a rise, and warnings are errors here."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(4, 40, 2)
    Y = noisy(n, p, 2, rows=1.0, columns=1.0, share=rng.choice([0.05, 0.5]), seed=seed)
    found = fitted(Y, noise, tol=1e-9)
    assert (np.diff(found.trace.free_energy) <= 1e-9 * np.abs(found.free_energy)).all()


@pytest.mark.parametrize(
    ("rows", "columns", "noise"),
    [(0.7, 0.0, PER_SAMPLE), (0.0, 0.7, PER_FEATURE), (0.7, 0.7, BOTH)],
    ids=["rows", "columns", "both"],
)
@pytest.mark.parametrize(("n", "p", "rank"), [(300, 20, 3), (200, 60, 4)])
def test_the_right_noise_finds_the_rank(rows, columns, noise, n, p, rank):
    Y = noisy(n, p, rank, rows=rows, columns=columns, strength=0.6)
    found, plain = fitted(Y, noise, tol=1e-8), fitted(Y, ISOTROPIC, tol=1e-8)
    assert found.n_components == rank
    assert plain.n_components > rank
    assert found.free_energy < plain.free_energy - 100


def test_noise_of_rows_is_found_in_their_order():
    """One row has no value, and some rows share their holes."""
    rng = np.random.default_rng(0)
    sizes = np.exp(0.7 * rng.normal(size=200))
    Y = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 30)) + sizes[:, None] * rng.normal(
        size=(200, 30)
    )
    Y[::3, 4], Y[17], Y[40] = np.nan, np.nan, 20 * Y[40]
    found = fitted(Y, PER_SAMPLE, tol=1e-8)
    known = np.delete(np.arange(200), [17, 40])
    assert np.corrcoef(np.log(found.noise.samples[known]), 2 * np.log(sizes[known]))[0, 1] > 0.95
    assert found.noise.samples[17] == pytest.approx(found.noise_variance)
    assert found.noise.outliers[40] > 0.99
    assert np.median(found.noise.outliers) < 0.01


@OWN
def test_equal_noise_is_found_to_be_equal(noise):
    """Models with separate variances contain the isotropic one and must reduce to it."""
    Y = noisy(150, 12, 2, strength=0.8)
    found, plain = fitted(Y, noise, tol=1e-9), fitted(Y, ISOTROPIC, tol=1e-9)
    assert found.n_components == plain.n_components == 2
    assert found.free_energy == pytest.approx(plain.free_energy, abs=0.1)


@OWN
def test_a_run_that_was_broken_off_goes_on(tmp_path, noise):
    Y = noisy(60, 8, 2, rows=0.7, columns=0.7)
    model, table = asked(Y, noise=noise)
    state = model.start(table, np.random.default_rng(0))
    once, _ = step(state, table.rows, model)
    kept = Checkpoint(tmp_path / "run", DenseState, fingerprint="", every=0.0)
    kept.keep(inference.Run(once, inference.Trace.empty()))
    again, info = step(kept.find().state, table.rows, model)
    assert info == step(once, table.rows, model)[1]
    assert again.rank == once.rank


def test_a_constant_column_is_set_aside():
    Y = noisy(100, 8, 2, columns=0.5)
    plain = fitted(Y, PER_FEATURE)
    constant = np.where(np.isnan(Y[:, :1]), np.nan, 3.0)
    found = fitted(np.c_[Y[:, :4], constant, Y[:, 4:]], PER_FEATURE)
    assert found.n_components == plain.n_components
    assert found.free_energy == pytest.approx(plain.free_energy, rel=1e-9)
    assert found.posterior.mean[4] == pytest.approx(3.0)
    np.testing.assert_allclose(np.delete(found.noise.features, 4), plain.noise.features, rtol=1e-6)
    assert found.noise.features[4] == 0


def test_rounding_is_noise():
    """Rounding bounds the density of counts that are mostly 0, under every noise model."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(1, 1, (150, 2)) @ rng.gamma(0.3, 1, (2, 15))).astype(float)
    X[:, 3] = rng.random(150) < 0.02
    Y = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    looping = inference.Looping(max_iter=2000, tol=1e-8)
    equal, rounded = (fit(Y, ClosedForm(), looping, rounded=each) for each in (False, True))
    assert rounded.free_energy > equal.free_energy
    for noise in MODELS:
        found = fit(Y, ClosedForm(), looping, noise=noise)
        assert found.free_energy < rounded.free_energy + 0.1
        assert found.free_energy > equal.free_energy - 10 * X.size
    features = fit(Y, ClosedForm(), looping, noise=PER_FEATURE).noise.features
    assert (features >= 0.4 * rounding_variances(Y)).all()


def test_rounding_is_what_unknown_digits_add():
    """Rounded data have about the noise of the exact data plus that of rounding."""
    Y = noisy(300, 10, 2, columns=0.5, strength=1.0)
    exact = fitted(Y, PER_FEATURE, tol=1e-9)
    coarse = fitted(np.round(2 * Y) / 2, PER_FEATURE, tol=1e-9)
    assert coarse.n_components == exact.n_components == 2
    more = coarse.noise.features - exact.noise.features
    # Rounding to a grid adds grid²/12 by itself, and as much again for the digits it hides.
    assert np.median(more) == pytest.approx(2 * 0.25 / 12, rel=0.5)


def elliptical(n, p, rank, *, seed=0):
    """Data with holes, and complete: t-like sizes of rows and columns times low rank plus noise."""
    rng = np.random.default_rng(seed)
    sizes = np.sqrt(3 / rng.gamma(3.0, size=(n, 1)) * 3 / rng.gamma(3.0, size=(1, p)))
    low = (rng.normal(size=(n, rank)) * np.geomspace(4, 0.5, rank)) @ rng.normal(size=(rank, p))
    X = sizes * (low + rng.normal(size=(n, p)))
    return np.where(rng.random((n, p)) < 0.1, np.nan, X), X


def variances_of_cells(model, Y):
    """Return bⱼᵀΣᵢbⱼ + tr ΣᵢCⱼ and ãᵀCⱼã for every cell, in the units of the posterior."""
    posterior = model.general_posterior()
    columns, k = posterior.columns, model.n_components_
    scores = np.linalg.solve(posterior.basis, model.transform(Y).T).T
    b, C = columns.b[:, :k], columns.b_cov
    second = b[:, :, None] * b[:, None, :] + C[:, :k, :k]
    of_scores, of_columns = np.empty(Y.shape), np.empty(Y.shape)
    for i, a in enumerate(scores):
        precision = np.diag(columns.noise_variance / columns.prior_a)
        precision = precision + second[~np.isnan(Y[i])].sum(axis=0)
        of_scores[i] = np.trace(np.linalg.solve(precision, second), axis1=1, axis2=2)
        of_columns[i] = np.einsum("k,jkl,l->j", [*a, 1.0], C, [*a, 1.0])
    return columns.noise_variance * of_scores, of_columns


def test_predictions_have_the_noise_that_was_found_for_their_row():
    Y, _ = elliptical(50, 200, 12)
    model = BayesianPCA(noise="both").fit(Y)
    posterior = model.general_posterior()
    _, std = imputing.impute(posterior, Y)
    s2, unit = posterior.columns.noise_variance, posterior.unit * posterior.scale
    of_scores, of_columns = variances_of_cells(model, Y)
    # Scores are in units of their row's noise, loadings are not.
    found = ((std / unit) ** 2 - of_columns) / (of_scores + s2) * s2 * unit**2
    noise = model.sample_noise_variance_[:, None] * model.feature_noise_variance_
    # ⟨u⟩ is larger than 1/⟨1/u⟩ by 1/(α + n/2 − 1).
    holes = np.isnan(Y)
    np.testing.assert_allclose(found[holes], (noise / model.noise_variance_)[holes], rtol=0.02)


def test_intervals_cover_in_rows_that_were_learned_from_and_in_new_ones():
    Y, X = elliptical(100, 200, 12)
    model = BayesianPCA(noise="both").fit(Y[:50])
    inside = []
    for rows in (slice(50), slice(50, None)):
        filled, std = model.impute(Y[rows], return_std=True)
        hidden = np.isnan(Y[rows])
        inside.append((np.abs(filled - X[rows]) < 1.96 * std)[hidden].mean())
    assert inside == pytest.approx([0.95, 0.95], abs=0.02)
    # A row's intervals do not depend on the other rows of the call.
    one, both = (model.impute(Y[part], return_std=True)[1] for part in ([7], [60, 7]))
    np.testing.assert_allclose(one[0], both[1], rtol=1e-12)


def test_units_that_differ_a_millionfold():
    """Equal noise in data units is a bad start here: it once made a Cholesky factor fail."""
    units = 10 ** np.random.default_rng(109).uniform(-3, 3, 12)
    X = low_rank(100, 12, 3, random_state=9).X
    X[np.random.default_rng(9).random(X.shape) < 0.1] = np.nan
    model = BayesianPCA(random_state=0).fit(X * units)
    assert model.n_components_ == 3
    noise = model.feature_noise_variance_ / units**2
    assert noise.max() < 5 * noise.min()

"""Sweeps over a matrix with holes: the free energy is the defined one, and each part lowers it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.missing import vb
from bayespca.missing.data import observed
from bayespca.missing.start import start
from oracles.holes import free_energy


def with_holes(n, p, rank, share, *, noise=1.0, seed=0):
    """Data, and the same with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + 3 * rng.normal(size=p)
    X += noise * rng.normal(size=(n, p))
    return X, np.where(rng.random((n, p)) < share, np.nan, X)


def unpruned_step(state, data):
    """A sweep that keeps all components: their number would hide what a part of it does."""
    rows = vb.update_rows(state, data)
    b, b_cov, _ = vb._update_columns(state, data, rows, data.values)
    return rows, replace(state, b=b, b_cov=b_cov)


def defined_energy(state, rows, data):
    X = np.where(data.mask > 0, data.values, np.nan)
    cov = rows.cov[data.pattern]
    return free_energy(
        X, rows.a, cov, state.b, state.b_cov, state.prior_a, state.prior_b, state.noise_variance
    )


@pytest.mark.parametrize("repeat", [1, 5])
def test_the_free_energy_is_the_defined_one(repeat):
    """In the coordinates that a sweep ends with, rotated from those it was found in."""
    _, X = with_holes(12, 6, 2, 0.3)
    data = observed(np.repeat(X, repeat, axis=0), center=True, scale=False)
    assert len(data.patterns) <= 12
    state = start(data)
    rows = vb.update_rows(state, data)
    new, info = vb.step(state, data)
    # The same posterior of A in the new coordinates: found from where columns have been taken.
    b, b_cov, _ = vb._update_columns(state, data, rows, data.values)
    mean = rows.a.mean(axis=0)
    n = len(rows.a)
    spread = (n - 1) / n * rows.cov[data.pattern].sum(axis=0)
    Saa = rows.a.T @ rows.a + spread - n * np.outer(mean, mean)
    moved, moved_cov = vb._moved(b, b_cov, mean)
    H = state.rank
    Sbb = moved[:, :H].T @ moved[:, :H] + moved_cov[:, :H, :H].sum(axis=0)
    turn = vb._turn(Saa, Sbb, n - 1)
    back = np.linalg.inv(turn)
    b, b_cov = vb._turned(moved, moved_cov, back)
    a, cov = (rows.a - mean) @ turn, turn.T @ rows.cov @ turn
    if new.rank < H:  # the last component was dropped
        keep = np.delete(np.arange(H + 1), H - 1)
        b, b_cov, a, cov = b[:, keep], b_cov[:, keep[:, None], keep], a[:, :-1], cov[:, :-1, :-1]
    np.testing.assert_allclose(new.b, b, atol=1e-12)
    X = np.where(data.mask > 0, data.values, np.nan)
    expected = free_energy(
        X, a, cov[data.pattern], b, b_cov, new.prior_a, new.prior_b, new.noise_variance
    )
    assert info.free_energy == pytest.approx(expected, rel=1e-10)


def test_each_update_is_a_minimum():
    """No small change of rows, columns, priors or noise leads lower."""
    _, X = with_holes(15, 7, 2, 0.3)
    data = observed(X, center=True, scale=False)
    state = start(data)
    for _ in range(3):
        state, _ = vb.step(state, data)
    rows, state = unpruned_step(state, data)
    base = defined_energy(state, rows, data)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = replace(state, b=state.b + 1e-3 * rng.normal(size=state.b.shape))
        assert defined_energy(other, rows, data) > base
        factor = 1 + 1e-3 * rng.normal(size=(len(state.b), 1, 1))
        other = replace(state, b_cov=state.b_cov * factor)
        assert defined_energy(other, rows, data) > base
    fresh = vb.update_rows(state, data)
    base = defined_energy(state, fresh, data)
    for _ in range(20):
        other = replace(fresh, a=fresh.a + 1e-3 * rng.normal(size=fresh.a.shape))
        assert defined_energy(state, other, data) > base


def test_coordinates_are_the_best():
    """Any other turn or shift of the latent space leads higher, priors at their best."""
    _, X = with_holes(40, 10, 3, 0.3)
    data = observed(X, center=True, scale=False)
    state = start(data)
    for _ in range(10):
        state, _ = vb.step(state, data)
    rows = vb.update_rows(state, data)
    H = state.rank
    M = len(X) - 1
    Saa = rows.a.T @ rows.a + M / len(X) * rows.cov[data.pattern].sum(axis=0)
    Sbb = state.b[:, :H].T @ state.b[:, :H] + state.b_cov[:, :H, :H].sum(axis=0)
    mean = rows.a.mean(axis=0)

    def penalty(R, m):
        """The part of the free energy that depends on the coordinates."""
        back = np.linalg.inv(R)
        n, p = data.shape
        a2 = np.diag(R.T @ (Saa - n * np.outer(m, mean) - n * np.outer(mean - m, m)) @ R)
        log_det = np.linalg.slogdet(R)[1]
        return (
            M * np.log(a2).sum()
            + p * np.log(np.diag(back @ Sbb @ back.T)).sum()
            - 2 * M * log_det
            + 2 * p * log_det
        )

    best = vb._turn(Saa - len(X) * np.outer(mean, mean), Sbb, M)
    base = penalty(best, mean)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1):
        for _ in range(20):
            R = best @ (np.eye(H) + size * rng.normal(size=(H, H)))
            assert penalty(R, mean) >= base - 1e-9 * abs(base)
            assert penalty(best, mean + size * rng.normal(size=H)) > base


@pytest.mark.parametrize(
    ("n", "p", "rank", "share"),
    [
        (300, 50, 4, 0.5),
        (100, 200, 3, 0.3),
        (400, 30, 0, 0.3),
        (500, 80, 6, 0.1),
        (60, 20, 2, 0.2),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_rank_is_found(n, p, rank, share, seed):
    _, X = with_holes(n, p, rank, share, seed=seed)
    data = observed(X, center=True, scale=False)
    done = inference.run(partial(vb.step, data=data), start(data), max_iter=200, tol=1e-8)
    assert done.converged
    assert done.state.rank == rank
    assert done.n_iter < 40
    # Four standard errors of a variance, from the degrees of freedom that the components leave.
    freedom = data.column_counts.sum() - rank * (n + p)
    noise = done.state.noise_variance * data.unit[0] ** 2
    assert noise == pytest.approx(1.0, abs=4 * np.sqrt(2 / freedom))


def test_patterns_only_save_work():
    """Rows that share their holes give the same answer as rows that are each on their own."""
    _, X = with_holes(20, 8, 2, 0.3)
    data = observed(np.concatenate([X, X[::-1]]), center=True, scale=False)
    assert len(data.patterns) < 40
    alone = replace(data, patterns=data.mask, pattern=np.arange(40))
    state = start(data)
    a, b = vb.step(state, data), vb.step(state, alone)
    assert a[1].free_energy == pytest.approx(b[1].free_energy, rel=1e-12)
    low_rank = [new.b[:, :-1] @ new.b[:, :-1].T for new, _ in (a, b)]
    np.testing.assert_allclose(*low_rank, atol=1e-10)


@pytest.mark.parametrize(("n", "p", "rank"), [(40, 12, 2), (15, 30, 2), (200, 10, 3)])
def test_without_holes_the_answer_is_the_closed_form(n, p, rank):
    X, _ = with_holes(n, p, rank, 0.0)
    data = observed(X, center=True, scale=False)
    done = inference.run(partial(vb.step, data=data), start(data), max_iter=500, tol=1e-15)
    closed = BayesianPCA().fit(X)
    assert done.state.rank == closed.n_components_ == rank
    unit = data.unit[0]
    assert done.state.noise_variance * unit**2 == pytest.approx(closed.noise_variance_, rel=1e-6)
    energy = done.trace.free_energy[-1] + (n - 1) * p * np.log(unit)
    assert energy == pytest.approx(closed.free_energy_, rel=1e-8)
    rows = vb.update_rows(done.state, data)
    low = rows.a @ done.state.b[:, :rank].T * unit
    np.testing.assert_allclose(low, closed.denoise(X) - closed.mean_, atol=1e-5)

"""The noise of small matrices, estimated from the lower part of their spectra."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.imaging.bulk import bulk_noise


def spectra(L, M, *, signal=(), n_matrices=200, complex_=False, seed=0):
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(n_matrices, L, M))
    if complex_:
        E = np.sqrt(0.5) * (E + 1j * rng.normal(size=E.shape))
    for h, strength in enumerate(signal):
        u, v = rng.normal(size=(n_matrices, L, 1)), rng.normal(size=(n_matrices, 1, M))
        E = E + strength * u * v / np.sqrt(L * M) * (1 + 0.1 * h)
    return np.linalg.svd(E, compute_uv=False) ** 2


def found(eigenvalues, L, M):
    P = len(eigenvalues)
    return bulk_noise(eigenvalues, np.full(P, float(L)), np.full(P, float(M)))


@pytest.mark.parametrize(("L", "M"), [(60, 124), (30, 100), (26, 60), (120, 124), (12, 500)])
@pytest.mark.parametrize("complex_", [False, True])
def test_noise_alone(L, M, complex_):
    s2 = found(spectra(L, M, complex_=complex_), L, M)
    assert np.sqrt(s2).mean() == pytest.approx(1.0, abs=0.006)


def test_signals_that_are_found_do_not_count():
    s2 = found(spectra(60, 124, signal=(300.0, 150.0, 90.0)), 60, 124)
    assert np.sqrt(s2).mean() == pytest.approx(1.0, abs=0.006)


def test_signals_too_weak_to_be_found_hardly_count():
    """The mean of all eigenvalues would put the noise over 10 % too high."""
    eigenvalues = spectra(60, 124, signal=(17.0,) * 8)
    everything = np.sqrt(eigenvalues.sum(axis=1) / (60 * 124)).mean()
    ours = np.sqrt(found(eigenvalues, 60, 124)).mean()
    assert everything > 1.1
    assert ours == pytest.approx(1.0, abs=0.02)


def test_sizes_may_differ_from_spectrum_to_spectrum():
    small, large = spectra(20, 40, n_matrices=3), spectra(30, 60, n_matrices=3)
    together = np.zeros((6, 30))
    together[:3, :20], together[3:] = small, large
    L, M = np.repeat([20.0, 30.0], 3), np.repeat([40.0, 60.0], 3)
    apart = np.concatenate([found(small, 20, 40), found(large, 30, 60)])
    assert bulk_noise(together, L, M) == pytest.approx(apart, rel=1e-12)


def test_nothing_has_no_noise():
    assert found(np.zeros((2, 10)), 10, 20).tolist() == [0.0, 0.0]

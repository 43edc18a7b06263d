"""The law of the eigenvalues of pure noise."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum.noise_law import density_of_nonzero


@pytest.mark.parametrize(("L", "M"), [(50, 200), (200, 50), (100, 100)])
def test_the_density_has_mass_one(L, M):
    s2 = 1e200
    low, high = (s2 * (np.sqrt(L / M) + sign) ** 2 for sign in (-1, 1))
    # Uniform in the angle, where the density is smooth at both ends.
    angle = np.linspace(0, np.pi, 20_001)[1:-1]
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    area = np.trapezoid(
        density_of_nonzero(x, s2, L / M) * ((high - low) / 2 * np.sin(angle)), angle
    )
    assert area == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize(("L", "M"), [(300, 900), (900, 300)])
def test_the_density_is_that_of_noise(L, M):
    rng = np.random.default_rng(0)
    values = np.linalg.svd(rng.normal(size=(L, M)), compute_uv=False) ** 2 / M
    low, high = ((np.sqrt(L / M) + sign) ** 2 for sign in (-1, 1))
    x = np.linspace(low, high, 4001)
    middle = (low + high) / 2
    below = x <= middle
    expected = np.trapezoid(density_of_nonzero(x[below], 1.0, L / M), x[below])
    assert np.mean(values <= middle) == pytest.approx(expected, abs=0.02)

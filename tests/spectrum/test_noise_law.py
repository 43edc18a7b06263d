"""The law of the eigenvalues of pure noise."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum.noise_law import density_of_nonzero, lower_means


@pytest.mark.parametrize(("L", "M"), [(50, 200), (200, 50), (100, 100)])
def test_the_density_has_mass_one(L, M):
    s2 = 1e200
    low, high = (s2 * (np.sqrt(L / M) + sign) ** 2 for sign in (-1, 1))
    # On a grid uniform in the angle, the integrand is smooth at both ends.
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


@pytest.mark.parametrize("ratio", [0.05, 0.48, 0.97])
@pytest.mark.parametrize("share", [0.5, 0.75, 1.0])
def test_means_of_the_lower_part(ratio, share):
    """Compare with sums over a fine grid of eigenvalues."""
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    edges = low + (high - low) * np.sin(np.linspace(0, np.pi / 2, 100_001)) ** 2
    x, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    mass = density_of_nonzero(x, 1.0, ratio) * width
    below = np.cumsum(mass) < share
    found = lower_means(np.array([ratio]), share)[0]
    assert found == pytest.approx((x * mass)[below].sum(), rel=1e-4)

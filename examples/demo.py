"""How many dimensions are in a table? 178 wines, 13 chemical measurements of each."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

from bayespca import spectrum


def main() -> None:
    wines = load_wine()
    X = (wines.data - wines.data.mean(0)) / wines.data.std(0)
    n, p = X.shape
    gamma = np.linalg.svd(X, compute_uv=False)
    # Centring costs one sample: n centred rows carry the information of n − 1.
    observed = spectrum.Spectrum(gamma, shape=(p, n - 1))
    found = spectrum.solve(observed, method="evb")
    posterior = ", ".join(
        f"{rank}: {probability:.1%}"
        for rank, probability in enumerate(found.rank_posterior)
        if probability > 0.001
    )
    print(f"{n} wines, {p} measurements, standardised\n")
    print(f"components found      {found.rank}")
    print(f"probability of ranks  {posterior}")
    print(f"noise variance        {found.noise_variance:.4f} (of 1 per measurement)")
    print(f"threshold             {found.threshold:.2f}")
    print(f"singular values       {np.round(gamma, 1)}")
    print(f"after shrinkage       {np.round(found.shrunk_singular_values, 1)}")
    print(f"free energy           {found.free_energy:.1f} nats")
    print(f"status                {found.status}\n")
    print("other rules for the rank:")
    for name, rank in {
        "Minka's evidence": spectrum.minka(observed).rank,
        "Marchenko–Pastur edge": spectrum.marchenko_pastur(observed),
        "Gavish–Donoho": spectrum.gavish_donoho(observed),
        "parallel analysis": spectrum.parallel_analysis(observed),
    }.items():
        print(f"  {name:22s}{rank}")
    print("\nThe result is what is printed above; nothing was written.")


if __name__ == "__main__":
    main()

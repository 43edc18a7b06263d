"""How many dimensions are in a table? 178 wines, 13 chemical measurements of each."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

from bayespca import BayesianPCA, rank_report


def main() -> None:
    wines = load_wine()
    model = BayesianPCA(scale=True).fit(wines.data)
    posterior = ", ".join(
        f"{rank}: {probability:.1%}"
        for rank, probability in enumerate(model.rank_posterior_)
        if probability > 0.001
    )
    share = model.explained_variance_ratio_.sum()
    print(f"{model.n_samples_} wines, {model.n_features_in_} measurements, standardised\n")
    print(f"components found      {model.n_components_}, with {share:.0%} of the variance")
    print(f"probability of ranks  {posterior}")
    print(f"noise variance        {model.noise_variance_:.3f} (of 1 per measurement)")
    print(f"singular values       {np.round(model.singular_values_, 1)}")
    print(f"after shrinkage       {np.round(model.shrunk_singular_values_, 1)}")
    print(f"threshold             {model.threshold_:.1f}\n")
    for h in range(2):
        loadings = sorted(
            zip(
                model.components_[h],
                model.components_std_[h],
                wines.feature_names,
                strict=True,
            ),
            key=lambda row: -abs(row[0]),
        )
        print(f"component {h + 1} is mostly")
        for value, std, name in loadings[:4]:
            print(f"  {value:+.2f} ± {std:.2f}  {name}")
    scores, std = model.transform(wines.data[:1], return_std=True)
    print(f"\nthe first wine scores {scores[0, 0]:+.2f} ± {std[0, 0]:.2f} on the first\n")
    print(rank_report(wines.data, scale=True))
    print("\nThe result is what is printed above; nothing was written.")


if __name__ == "__main__":
    main()
